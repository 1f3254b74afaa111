/* A loader's report as JSON, by the library's tables: what Python's Report.to_json() gives too, under the same keys. */
#include "cli.h"

#include <string.h>

static json_t *value_json(const fby_option *o, const char *at)
{
    uint32_t small;
    uint64_t large;
    double number;
    switch (o->type) {
    case FBY_OPTION_BOOL: return json_boolean(*(const bool *)(const void *)at);
    case FBY_OPTION_U32: memcpy(&small, at, sizeof small); return json_integer((json_int_t)small);
    case FBY_OPTION_U64:
    case FBY_OPTION_BYTES: memcpy(&large, at, sizeof large); return json_integer((json_int_t)large);
    case FBY_OPTION_DOUBLE: memcpy(&number, at, sizeof number); return json_real(number);
    case FBY_OPTION_CHOICE: memcpy(&small, at, sizeof small); return json_string(o->choices[small]);
    case FBY_OPTION_TEXT: return cli_json_text(*(const char *const *)(const void *)at ? *(const char *const *)(const void *)at : "");
    case FBY_OPTION_CHARS: return cli_json_text(at);
    default: return NULL; /* lists are the caller's; of what else there is, reports have nothing */
    }
}

static json_t *fields_json(fby_option_set set, const void *from)
{
    json_t *object = json_object();
    const fby_option *o;
    for (size_t i = 0; (o = fby_option_at(set, i)); i++) {
        json_t *value = value_json(o, (const char *)from + o->offset);
        if (value)
            json_object_set_new(object, o->name, value);
    }
    return object;
}

/* Bytes a second of a stage while it was at work; 0 where nothing was measured. */
static json_t *per_second(uint64_t bytes, uint64_t ns) { return json_real(ns ? 1e9 * (double)bytes / (double)ns : 0); }

/* What follows from an epoch's counts, as Python's Epoch has it. */
static json_t *epoch_json(const fby_epoch *e)
{
    json_t *epoch = fields_json(FBY_OPTIONS_EPOCH, e);
    json_object_set_new(epoch, "wait_share", json_real(e->elapsed_ns ? (double)e->wait_ns / (double)e->elapsed_ns : 0));
    json_object_set_new(epoch, "bytes_per_second",
                        json_pack("{s:o, s:o, s:o, s:o, s:o}", "read", per_second(e->bytes_read, e->reading_ns), "decompress",
                                  per_second(e->bytes_decompressed, e->decompress_ns), "decode", per_second(e->bytes_decoded, e->decode_ns),
                                  "assemble", per_second(e->bytes_delivered, e->assemble_ns), "transfer",
                                  per_second(e->bytes_delivered, e->transfer_ns)));
    json_object_set_new(epoch, "torch_allocated_bytes", json_null()); /* the command has none */
    json_object_set_new(epoch, "torch_reserved_bytes", json_null());
    return epoch;
}

json_t *cli_report_json(const fby_report *r, fby_loader *loader)
{
    json_t *root = fields_json(FBY_OPTIONS_REPORT, r), *cures = json_array(), *epochs = json_array();
    for (uint32_t i = 0; i < r->n_cures; i++)
        json_array_append_new(cures, fields_json(FBY_OPTIONS_CURE, &r->cures[i]));
    for (uint32_t i = 0; i < r->n_epochs; i++) {
        fby_epoch epoch = {.size = sizeof epoch};
        if (fby_loader_epoch(loader, i, &epoch, NULL) == FBY_OK)
            json_array_append_new(epochs, epoch_json(&epoch));
    }
    json_object_set_new(root, "schema", json_integer(CLI_REPORT_SCHEMA));
    json_object_set_new(root, "cures", cures);
    json_object_set_new(root, "epochs", epochs);
    uint64_t ns[FBY_WAITS_MOST], counts[FBY_WAITS_MOST];
    json_t *waits = json_array();
    for (size_t i = 0, n = fby_loader_waits(loader, ns, counts, FBY_WAITS_MOST); i < n; i++)
        json_array_append_new(waits, json_pack("[I, I]", (json_int_t)ns[i], (json_int_t)counts[i]));
    json_object_set_new(root, "waits", waits);
    json_t *sources = json_array();
    for (size_t i = 0, n = fby_loader_source_count(loader); n > 1 && i < n; i++) {
        fby_source_report source = {.size = sizeof source};
        if (fby_loader_source_report(loader, i, &source, NULL) == FBY_OK)
            json_array_append_new(sources, fields_json(FBY_OPTIONS_SOURCE_REPORT, &source));
    }
    json_object_set_new(root, "sources", sources);     /* of a mixture */
    json_object_set_new(root, "spans", json_object()); /* the program's: the command has none */
    return root;
}
