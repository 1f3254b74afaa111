/*
 * libforebay: shuffled, deterministic, resumable training batches from Parquet, HDF5, NetCDF-4, Arrow and CSV files, and Arrow data in memory.
 *
 *   base.h       status codes, errors, dtypes, version
 *   schema.h     fields and types
 *   dataset.h    fby_dataset_open …: many files as one table
 *   contents.h   fby_contents_open …: what a file holds beyond its table, such as attributes
 *   samples.h    fby_samples_open …: rows, windows or groups
 *   transform.h  fby_op, fby_fit_moments: row operations
 *   lookup.h     fby_lookup_open …: tables beside the data, by key
 *   make.h       fby_make, fby_after: outputs that are made of columns when a batch is built
 *   loader.h     fby_loader_open …: epochs of batches inside a memory budget
 *   batch.h      fby_batch_tensor …: what a loader delivers
 *   pack.h       fby_pack: a data set written anew, shuffled
 *   pipeline.h   fby_pipeline_open …: all of that from a YAML file
 *   log.h        fby_log_set: what the library has to say while it runs
 *   trace.h      fby_trace_begin …: what happened when, for Perfetto
 *   options.h    fby_option_at: the options above as tables, for bindings and tools
 *   mix.h        fby_loader_open_mix: one loader over several data sets
 *   arrow.h      the Arrow C data and stream interfaces
 *   dlpack.h     the DLPack structs (not included here: include it where you take fby_batch_dlpack's result apart)
 */
#ifndef FOREBAY_FOREBAY_H
#define FOREBAY_FOREBAY_H

#include <forebay/arrow.h>
#include <forebay/base.h>
#include <forebay/batch.h>
#include <forebay/contents.h>
#include <forebay/dataset.h>
#include <forebay/loader.h>
#include <forebay/log.h>
#include <forebay/lookup.h>
#include <forebay/make.h>
#include <forebay/mix.h>
#include <forebay/options.h>
#include <forebay/pack.h>
#include <forebay/pipeline.h>
#include <forebay/samples.h>
#include <forebay/schema.h>
#include <forebay/trace.h>
#include <forebay/transform.h>

#endif
