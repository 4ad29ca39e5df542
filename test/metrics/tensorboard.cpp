// The files are read back by an independent reader, written from the format's description.
#include "metrics/tensorboard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "base/crc32c.h"
#include "base/text.h"
#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::TempFolder;

template <class T>
T take(std::string_view& bytes) {
    REQUIRE(bytes.size() >= sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return value;
}

std::uint64_t take_varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const auto byte = take<std::uint8_t>(bytes);
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
}

/// A message's fields in order: raw bits of numbers, bytes of everything else.
struct Field {
    std::uint64_t number;
    std::uint64_t bits;
    std::string bytes;
};

std::vector<Field> fields_of(std::string_view message) {
    std::vector<Field> fields;
    while (!message.empty()) {
        const std::uint64_t key = take_varint(message);
        Field field{key >> 3, 0, ""};
        switch (key & 7) {
            case 0: field.bits = take_varint(message); break;
            case 1: field.bits = take<std::uint64_t>(message); break;
            case 2: {
                const std::uint64_t size = take_varint(message);
                REQUIRE(message.size() >= size);
                field.bytes = message.substr(0, size);
                message.remove_prefix(size);
                break;
            }
            case 5: field.bits = take<std::uint32_t>(message); break;
            default: FAIL("wire type " << (key & 7));
        }
        fields.push_back(field);
    }
    return fields;
}

/// As in TensorFlow's documentation of the record format.
std::uint32_t masked(std::uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::vector<std::string> records_of(const std::string& file) {
    std::vector<std::string> records;
    std::string_view rest = file;
    while (!rest.empty()) {
        const std::string_view head = rest.substr(0, 8);
        const auto size = take<std::uint64_t>(rest);
        CHECK(take<std::uint32_t>(rest) == masked(crc32c(head.data(), head.size())));
        REQUIRE(rest.size() >= size);
        records.emplace_back(rest.substr(0, size));
        rest.remove_prefix(size);
        CHECK(take<std::uint32_t>(rest) ==
              masked(crc32c(records.back().data(), records.back().size())));
    }
    return records;
}

/// The bytes of a required field, found by the field numbers on the way to it.
std::string bytes_at(const std::string& message, const std::vector<std::uint64_t>& numbers) {
    std::string bytes = message;
    for (const std::uint64_t number : numbers) {
        const std::vector<Field> fields = fields_of(bytes);
        const auto is_it = [&](const Field& field) { return field.number == number; };
        const auto found = std::find_if(fields.begin(), fields.end(), is_it);
        REQUIRE(found != fields.end());
        bytes = found->bytes;
    }
    return bytes;
}

/// The settings of a SessionStartInfo as text: a google.protobuf.Value is a number (2), a string
/// (3) or a boolean (4).
std::map<std::string, std::string> settings_of(const std::string& info) {
    std::map<std::string, std::string> settings;
    for (const Field& field : fields_of(info)) {
        if (field.number != 1) continue;
        const Field value = fields_of(bytes_at(field.bytes, {2})).at(0);
        std::string& words = settings[bytes_at(field.bytes, {1})];
        if (value.number == 2) words = text("number ", std::bit_cast<double>(value.bits));
        if (value.number == 3) words = "string " + value.bytes;
        if (value.number == 4) words = value.bits == 1 ? "true" : "false";
    }
    return settings;
}

struct Event {
    double wall_time = 0;
    std::int64_t step = 0;
    std::string version;
    bool start = false;
    std::map<std::string, float> scalars;
    std::map<std::string, std::string> settings;
};

Event event_of(const std::string& record) {
    Event event;
    for (const Field& field : fields_of(record)) {
        if (field.number == 1) event.wall_time = std::bit_cast<double>(field.bits);
        if (field.number == 2) event.step = static_cast<std::int64_t>(field.bits);
        if (field.number == 3) event.version = field.bytes;
        if (field.number == 7) event.start = fields_of(field.bytes).at(0).bits == 1;
        if (field.number != 5) continue;
        for (const Field& value : fields_of(field.bytes)) {
            const std::string tag = bytes_at(value.bytes, {1});
            if (tag == "_hparams_/session_start_info") {
                CHECK(bytes_at(value.bytes, {9, 1, 1}) == "hparams");
                CHECK(!bytes_at(value.bytes, {8}).empty());
                event.settings = settings_of(bytes_at(value.bytes, {9, 1, 2, 3}));
                continue;
            }
            const std::vector<Field> pair = fields_of(value.bytes);
            event.scalars[pair.at(0).bytes] =
                std::bit_cast<float>(static_cast<std::uint32_t>(pair.at(1).bits));
        }
    }
    return event;
}

std::vector<Event> events_of(const TensorBoardWriter& writer) {
    std::vector<Event> events;
    for (const std::string& record : records_of(test::contents(writer.path())))
        events.push_back(event_of(record));
    return events;
}

TEST_CASE("the record checksum is TensorFlow's") {
    CHECK(crc32c("123456789", 9) == 0xE3069283u);
    // From TensorBoard's own masked_crc32c.
    CHECK(masked(crc32c("\x18\0\0\0\0\0\0\0", 8)) == 0x224b7fa3u);
}

TEST_CASE("scalars of a step come back under their tags") {
    const TempFolder folder;
    TensorBoardWriter writer(folder.path(), 0, Json::object());
    writer.write(1, {{"loss", 9.5}, {"lr", 6.0e-4}});
    writer.write(300, {{"val_loss", std::numeric_limits<double>::quiet_NaN()}});
    const std::vector<Event> events = events_of(writer);
    REQUIRE(events.size() == 5);
    CHECK(events[0].version == "brain.Event:2");
    CHECK(events[0].wall_time > 1.6e9);
    CHECK(events[1].start);
    CHECK(events[1].step == 1);
    CHECK(events[3].step == 1);
    CHECK(events[3].scalars == std::map<std::string, float>{{"loss", 9.5f}, {"lr", 6.0e-4f}});
    CHECK(events[4].step == 300);
    CHECK(std::isnan(events[4].scalars.at("val_loss")));
}

TEST_CASE("settings come back under their keys, with their types") {
    const TempFolder folder;
    const Json settings = {
        {"seed", 1234},
        {"model", {{"num_layers", 12}, {"bias", true}, {"tie_embeddings", false}}},
        {"training", {{"rampup", {{"samples", std::int64_t{1} << 40}}}}},
        {"optimizer", {{"name", "adamw"}, {"lr", 6.0e-4}, {"betas", {0.9, 0.95}}}}};
    const TensorBoardWriter writer(folder.path(), 0, settings);
    CHECK(events_of(writer).at(2).settings ==
          std::map<std::string, std::string>{
              {"seed", "number 1234"},
              {"model.num_layers", "number 12"},
              {"model.bias", "true"},
              {"model.tie_embeddings", "false"},
              {"training.rampup.samples", text("number ", 1099511627776.0)},
              {"optimizer.name", "string adamw"},
              {"optimizer.lr", text("number ", 6.0e-4)},
              {"optimizer.betas", "string [0.9,0.95]"}});
}

TEST_CASE("a restart has a file of its own that takes over after the step resumed from") {
    const TempFolder folder;
    const Json settings = {{"seed", 1}};
    TensorBoardWriter first(folder.path(), 0, settings);
    first.write(1, {{"loss", 1}});
    TensorBoardWriter second(folder.path(), 500, settings);
    CHECK(first.path() != second.path());
    CHECK(events_of(first).size() == 4);
    CHECK(events_of(second).at(1).start);
    CHECK(events_of(second).at(1).step == 501);
    // TensorBoard drops the events of later steps.
    CHECK(events_of(second).at(2).step == 0);
    CHECK(events_of(second).at(2).settings.contains("seed"));
    CHECK(test::contains(second.path().filename().string(), "events.out.tfevents."));
}

}  // namespace
}  // namespace gptrain
