#include "train/tensorboard.h"

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/text.h"
#include "train/run_directory.h"

namespace gptrain {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little endian");

/// Field numbers of the protobuf messages.
namespace event {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace summary {
constexpr int value = 1, tag = 1, simple_value = 2;
}
namespace session_log {
constexpr int status = 1, start = 1;
}

enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
}

void put_key(std::string& out, int field, Wire wire) {
    put_varint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

template <class T>
void put_raw(std::string& out, T value) {
    std::array<char, sizeof value> bytes;
    std::memcpy(bytes.data(), &value, sizeof value);
    out.append(bytes.data(), bytes.size());
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
    put_key(out, field, Wire::bytes);
    put_varint(out, bytes.size());
    out += bytes;
}

void put_integer(std::string& out, int field, std::int64_t value) {
    put_key(out, field, Wire::varint);
    put_varint(out, static_cast<std::uint64_t>(value));
}

std::uint32_t masked_crc(std::string_view bytes) {
    return std::rotr(crc32c(bytes.data(), bytes.size()), 15) + 0xa282ead8u;
}

std::string record(std::string_view payload) {
    std::string out;
    put_raw(out, static_cast<std::uint64_t>(payload.size()));
    put_raw(out, masked_crc(out));
    out += payload;
    put_raw(out, masked_crc(payload));
    return out;
}

std::string scalar_value(const Scalar& scalar) {
    std::string out;
    put_bytes(out, summary::tag, scalar.tag);
    put_key(out, summary::simple_value, Wire::fixed32);
    put_raw(out, static_cast<float>(scalar.value));
    return out;
}

double unix_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// A name that is not taken: containers often give every start the same host and process id.
std::filesystem::path free_name(const std::filesystem::path& folder) {
    const std::string stem =
        text("events.out.tfevents.", static_cast<std::int64_t>(unix_seconds()), ".", host_name(),
             ".", static_cast<std::int64_t>(::getpid()), ".");
    int n = 0;
    while (std::filesystem::exists(folder / text(stem, n)))
        ++n;
    return folder / text(stem, n);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, std::int64_t resumed_from)
    : file_(free_name(folder), File::Mode::create) {
    std::string version;
    put_bytes(version, event::file_version, "brain.Event:2");
    write_event(0, version);

    std::string status;
    put_integer(status, session_log::status, session_log::start);
    std::string restart;
    put_bytes(restart, event::session_log, status);
    write_event(resumed_from + 1, restart);
}

void TensorBoardWriter::write(std::int64_t step, const std::vector<Scalar>& scalars) {
    std::string values;
    for (const Scalar& scalar : scalars) {
        put_bytes(values, summary::value, scalar_value(scalar));
    }
    std::string content;
    put_bytes(content, event::summary, values);
    write_event(step, content);
}

void TensorBoardWriter::write_event(std::int64_t step, std::string_view content) {
    std::string payload;
    put_key(payload, event::wall_time, Wire::fixed64);
    put_raw(payload, unix_seconds());
    put_integer(payload, event::step, step);
    payload += content;
    file_.write(record(payload));
}

}  // namespace gptrain
