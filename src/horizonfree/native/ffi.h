/* Reading a call of XLA (xla/ffi/api/c_api.h): buffers in order, integer attributes by name, errors. */

#pragma once
#include <string.h>

#include "xla/ffi/api/c_api.h"

/* Whether XLA only asks for which version of its API the handler was compiled; then it is answered. */
static int is_version_query(XLA_FFI_CallFrame *frame) {
    XLA_FFI_Extension_Base *extension = frame->extension_start;
    if (extension == NULL || extension->type != XLA_FFI_Extension_Metadata) return 0;
    XLA_FFI_Api_Version *version = &((XLA_FFI_Metadata_Extension *)extension)->metadata->api_version;
    version->major_version = XLA_FFI_API_MAJOR;
    version->minor_version = XLA_FFI_API_MINOR;
    return 1;
}

static XLA_FFI_Error *ffi_error(XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *message) {
    XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, message, code};
    return frame->api->XLA_FFI_Error_Create(&args);
}

static XLA_FFI_Buffer *ffi_argument(const XLA_FFI_CallFrame *frame, int i) { return frame->args.args[i]; }

static void *ffi_result(const XLA_FFI_CallFrame *frame, int i) { return ((XLA_FFI_Buffer *)frame->rets.rets[i])->data; }

/* An attribute of type int64; 0 if there is none of this name. */
static inline int64_t ffi_attribute(const XLA_FFI_CallFrame *frame, const char *name) {
    for (int64_t i = 0; i < frame->attrs.size; i++) {
        const XLA_FFI_ByteSpan *found = frame->attrs.names[i];
        if (found->len == strlen(name) && memcmp(found->ptr, name, found->len) == 0)
            return *(int64_t *)((XLA_FFI_Scalar *)frame->attrs.attrs[i])->value;
    }
    return 0;
}
