// The fuzz targets of the program `replay`, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

/// Called as by libFuzzer.
using FuzzTarget = int(const std::uint8_t* bytes, std::size_t size);

/// CMake writes the definition.
extern const std::map<std::string, FuzzTarget*> fuzz_targets;
