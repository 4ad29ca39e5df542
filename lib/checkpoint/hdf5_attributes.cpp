#include "checkpoint/hdf5_attributes.h"

#include <cstdint>

namespace gptrain {
namespace {

void write_one(hid_t object, const std::string& name, hid_t type, const void* value,
               const std::string& file) {
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, "H5Screate", file);
    Hdf5Handle attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, "H5Acreate2", file);
    check_hdf5(H5Awrite(attribute, type, value), "H5Awrite", file);
    attribute.close(file);
}

Hdf5Handle text_type(const std::string& file) {
    Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "H5Tcopy", file);
    check_hdf5(H5Tset_size(type, H5T_VARIABLE), "H5Tset_size", file);
    check_hdf5(H5Tset_cset(type, H5T_CSET_UTF8), "H5Tset_cset", file);
    return type;
}

Hdf5Handle boolean_type(const std::string& file) {
    Hdf5Handle type(H5Tenum_create(H5T_NATIVE_INT8), H5Tclose, "H5Tenum_create", file);
    const std::int8_t no = 0;
    const std::int8_t yes = 1;
    check_hdf5(H5Tenum_insert(type, "FALSE", &no), "H5Tenum_insert", file);
    check_hdf5(H5Tenum_insert(type, "TRUE", &yes), "H5Tenum_insert", file);
    return type;
}

}  // namespace

void write_attributes(hid_t object, const Json& values, const std::string& file) {
    for (const auto& [name, value] : values.items()) {
        if (value.is_boolean()) {
            const std::int8_t flag = value.get<bool>() ? 1 : 0;
            write_one(object, name, boolean_type(file), &flag, file);
        } else if (value.is_number_integer()) {
            const auto number = value.get<std::int64_t>();
            write_one(object, name, H5T_NATIVE_INT64, &number, file);
        } else if (value.is_number()) {
            const auto number = value.get<double>();
            write_one(object, name, H5T_NATIVE_DOUBLE, &number, file);
        } else {
            // Lists and sections are their JSON.
            const std::string string =
                value.is_string() ? value.get<std::string>() : to_line(value);
            const char* begin = string.c_str();
            write_one(object, name, text_type(file), &begin, file);
        }
    }
}

}  // namespace gptrain
