// Reads the small HDF5 files of expected values, which are next to the scripts that made them.
#pragma once

#include <array>
#include <cstdint>
#include <hdf5.h>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace gptrain::test {

template <class T>
struct Hdf5Array {
    std::vector<std::int64_t> shape;
    std::vector<T> values;  ///< row-major
};

/// HDF5's name of a C++ number type in memory.
template <class T>
hid_t hdf5_type() {
    if constexpr (std::is_same_v<T, float>)
        return H5T_NATIVE_FLOAT;
    else if constexpr (std::is_same_v<T, double>)
        return H5T_NATIVE_DOUBLE;
    else if constexpr (std::is_same_v<T, std::uint8_t>)
        return H5T_NATIVE_UINT8;
    else if constexpr (std::is_same_v<T, std::uint16_t>)
        return H5T_NATIVE_UINT16;
    else if constexpr (std::is_same_v<T, std::uint32_t>)
        return H5T_NATIVE_UINT32;
    else if constexpr (std::is_same_v<T, std::int32_t>)
        return H5T_NATIVE_INT32;
    else {
        static_assert(std::is_same_v<T, std::int64_t>);
        return H5T_NATIVE_INT64;
    }
}

/// Owns an HDF5 handle. A negative handle is an Error that names what was requested.
class Hdf5Handle {
public:
    Hdf5Handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
        if (id_ < 0) fail(ExitCode::bad_input, what, ": HDF5 cannot open it");
    }
    Hdf5Handle(const Hdf5Handle&) = delete;
    Hdf5Handle& operator=(const Hdf5Handle&) = delete;
    ~Hdf5Handle() { close_(id_); }
    operator hid_t() const { return id_; }

private:
    hid_t id_;
    herr_t (*close_)(hid_t);
};

/// The data set `name` ("group/name") of `file`, converted to T, with its shape (empty for a
/// scalar).
template <class T>
Hdf5Array<T> read_array(const std::string& file, const std::string& name) {
    const std::string what = file + ":" + name;
    const Hdf5Handle opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, file);
    const Hdf5Handle dataset(H5Dopen2(opened, name.c_str(), H5P_DEFAULT), H5Dclose, what);
    const Hdf5Handle space(H5Dget_space(dataset), H5Sclose, what);
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0) fail(ExitCode::bad_input, what, ": not a simple array");
    std::vector<hsize_t> extent(static_cast<std::size_t>(rank));
    H5Sget_simple_extent_dims(space, extent.data(), nullptr);

    Hdf5Array<T> array{{extent.begin(), extent.end()}, {}};
    std::size_t count = 1;
    for (const hsize_t size : extent)
        count *= size;
    array.values.resize(count);
    if (count > 0 &&
        H5Dread(dataset, hdf5_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()) < 0) {
        fail(ExitCode::bad_input, what, ": HDF5 cannot read it");
    }
    return array;
}

/// Only the values.
template <class T>
std::vector<T> read_dataset(const std::string& file, const std::string& name) {
    return read_array<T>(file, name).values;
}

/// A number that is an attribute of the object `name` ("/" for the file).
template <class T>
T read_attribute(const std::string& file, const std::string& name, const std::string& key) {
    const std::string what = file + ":" + name + "@" + key;
    const Hdf5Handle opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, file);
    const Hdf5Handle attribute(
        H5Aopen_by_name(opened, name.c_str(), key.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
        what);
    T value{};
    if (H5Aread(attribute, hdf5_type<T>(), &value) < 0) {
        fail(ExitCode::bad_input, what, ": HDF5 cannot read it");
    }
    return value;
}

/// True if the file has that attribute.
inline bool has_attribute(const std::string& file, const std::string& key) {
    const Hdf5Handle opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, file);
    return H5Aexists(opened, key.c_str()) > 0;
}

/// An attribute that is a string, of fixed length or not.
inline std::string read_text_attribute(const std::string& file, const std::string& name,
                                       const std::string& key) {
    const std::string what = file + ":" + name + "@" + key;
    const Hdf5Handle opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, file);
    const Hdf5Handle attribute(
        H5Aopen_by_name(opened, name.c_str(), key.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
        what);
    const Hdf5Handle type(H5Aget_type(attribute), H5Tclose, what);
    if (H5Tis_variable_str(type) > 0) {
        char* words = nullptr;
        if (H5Aread(attribute, type, &words) < 0) {
            fail(ExitCode::bad_input, what, ": HDF5 cannot read it");
        }
        const std::string value(words);
        H5free_memory(words);
        return value;
    }
    std::string value(H5Tget_size(type), '\0');
    if (H5Aread(attribute, type, value.data()) < 0) {
        fail(ExitCode::bad_input, what, ": HDF5 cannot read it");
    }
    return value.substr(0, value.find('\0'));
}

/// An attribute that is an enumeration of FALSE and TRUE.
inline bool read_boolean_attribute(const std::string& file, const std::string& name,
                                   const std::string& key) {
    const std::string what = file + ":" + name + "@" + key;
    const Hdf5Handle opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, file);
    const Hdf5Handle attribute(
        H5Aopen_by_name(opened, name.c_str(), key.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
        what);
    const Hdf5Handle type(H5Aget_type(attribute), H5Tclose, what);
    std::int8_t value = 0;
    std::array<char, 8> word{};
    if (H5Aread(attribute, type, &value) < 0 ||
        H5Tenum_nameof(type, &value, word.data(), word.size()) < 0) {
        fail(ExitCode::bad_input, what, ": HDF5 cannot read it");
    }
    return std::string_view(word.data()) == "TRUE";
}

}  // namespace gptrain::test
