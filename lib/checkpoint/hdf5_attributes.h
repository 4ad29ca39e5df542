// HDF5 attributes that describe the contents of a file.
#pragma once

#include <string>

#include "base/json.h"
#include "checkpoint/hdf5_handle.h"

namespace gptrain {

/// Writes an attribute of the open file or object `object` for each member of `values`: a 64-bit
/// integer, a double, variable-length UTF-8 text, or a boolean in h5py's format (an 8-bit
/// enumeration of FALSE and TRUE). Failures are Errors (io) that name `file`.
void write_attributes(hid_t object, const Json& values, const std::string& file);

}  // namespace gptrain
