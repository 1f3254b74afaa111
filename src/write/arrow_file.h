/* Between the files of the Arrow writer. */
#ifndef FBY_WRITE_ARROW_FILE_H
#define FBY_WRITE_ARROW_FILE_H

#include "write/arrow_flatbuffer.h"
#include "write/write_impl.h"

/** A Schema table that the offset at `link` leads to. The schema was checked by its writer: its types are known ones. options: for the attributes. */
void fby__arrow_put_schema(fby__fb *b, uint32_t link, const struct ArrowSchema *schema, const fby__write_options *options);
/** The Message that a stream begins with, without the lengths around it. */
void fby__arrow_put_schema_message(fby__fb *b, const struct ArrowSchema *schema, const fby__write_options *options);

#endif
