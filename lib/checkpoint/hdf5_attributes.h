// Attributes of HDF5 objects that say in words and numbers what a file holds.
#pragma once

#include <string>

#include "base/json.h"
#include "checkpoint/hdf5_handle.h"

namespace gptrain {

/// Gives the open file or object `object` an attribute for each member of `values`: a 64-bit
/// integer, a double, UTF-8 text of variable length, or a boolean as h5py writes it (an 8-bit
/// enumeration of FALSE and TRUE). `file` is named in errors (io).
void write_attributes(hid_t object, const Json& values, const std::string& file);

}  // namespace gptrain
