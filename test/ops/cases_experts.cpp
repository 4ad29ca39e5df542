#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::int64_t tokens, experts, per_token, hidden;
    bool large = false;

    std::int64_t slots() const { return tokens * per_token; }
};

constexpr Size sizes[] = {{1, 1, 1, 1},      {1, 4, 2, 5},     {3, 2, 2, 16},
                          {7, 8, 3, 13},     {33, 12, 2, 40},  {129, 1, 1, 24},
                          {150, 64, 8, 33},  {300, 5, 5, 8},   {4096, 64, 6, 2048, true},
                          {20, 300, 4, 130}, {2100, 16, 2, 1}, {37, 4, 1, 1}};

OpCase make_case(std::string_view op, const Size& size, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = 1;
    limits.seq_length = size.tokens;
    limits.hidden = size.hidden;
    limits.experts = size.experts;
    limits.expert_slots = size.slots();
    OpCase result(text(op, " ", name_of(dtype), " T", size.tokens, " E", size.experts, " K",
                       size.per_token, " H", size.hidden),
                  limits);
    result.large = size.large;
    return result;
}

/// Which slots have rows.
enum class Choice {
    all,
    some,   ///< the others have none
    none,   ///< not one
    first,  ///< all that go to the first expert
};

/// Distinct experts of a token, ascending; -1 without one.
std::vector<double> choices(const Size& size, Choice choice) {
    std::vector<double> chosen;
    const Values words = random_integers(0, 1 << 20);
    for (std::int64_t i = 0; i < size.tokens * size.per_token; ++i) {
        const std::int64_t begin = i % size.per_token * size.experts / size.per_token;
        const std::int64_t end = (i % size.per_token + 1) * size.experts / size.per_token;
        const auto word = static_cast<std::int64_t>(words(i, {7, 7}));
        const std::int64_t expert = choice == Choice::first ? begin : begin + word % (end - begin);
        const bool without = choice == Choice::none || (choice == Choice::some && word % 5 < 2) ||
                             (choice == Choice::first && expert != 0);
        chosen.push_back(without ? -1 : static_cast<double>(expert));
    }
    return chosen;
}

std::vector<double> values_of(const Array& array) {
    std::vector<double> values;
    for (const Bounded& x : array.values())
        values.push_back(x.value);
    return values;
}

/// The order of the rows.
struct Order {
    std::vector<double> offsets, slots, places;
    std::int64_t rows = 0;

    Order(const Size& size, Choice choice) {
        Array chosen({size.tokens * size.per_token});
        const std::vector<double> experts = choices(size, choice);
        std::copy(experts.begin(), experts.end(), chosen.values().begin());
        Array starts({size.experts + 1});
        Array row_slots(chosen.shape());
        Array slot_rows(chosen.shape());
        reference::group_by_expert(chosen, starts, row_slots, slot_rows);
        rows = starts.integer(size.experts);
        offsets = values_of(starts);
        slots = values_of(row_slots);
        slots.resize(static_cast<std::size_t>(rows));
        places = values_of(slot_rows);
    }
};

/// The messages to the ranks that divide the experts among them.
struct Messages {
    Size size;
    std::int64_t ranks, length;

    std::int64_t experts_per_rank() const { return size.experts / ranks; }
    Shape shape() const { return {ranks, length}; }
};

/// One rank; more experts of a token than a rank has; a rank for each expert; messages that always
/// suffice, that are exactly full, and that are too short.
constexpr Messages messages[] = {
    {{1, 1, 1, 1}, 1, 1},       {{129, 1, 1, 24}, 1, 100},  {{7, 8, 3, 13}, 4, 3},
    {{20, 600, 4, 8}, 600, 2},  {{33, 12, 2, 40}, 3, 66},   {{300, 5, 5, 8}, 5, 300},
    {{150, 64, 8, 33}, 64, 20}, {{2100, 16, 2, 1}, 8, 700}, {{4096, 64, 6, 2048, true}, 8, 4608}};

/// The slot of each row of them, or -1.
std::vector<double> message_slots(const Messages& to, Choice choice) {
    Array chosen({to.size.slots()});
    const std::vector<double> of_slots = choices(to.size, choice);
    std::copy(of_slots.begin(), of_slots.end(), chosen.values().begin());
    const Array weights(chosen.shape());
    Array places(chosen.shape());
    Array slots(to.shape());
    Array experts(to.shape());
    Array weighted(to.shape());
    Array unplaced;
    reference::place_rows(chosen, weights, to.experts_per_rank(), places, slots, experts, weighted,
                          unplaced);
    return values_of(slots);
}

/// The rows of the slots that have one; those behind hold NaN, or -1 if integers.
Operand rows_of(OpCase& op, Role role, DType dtype, const Size& size, const Order& order,
                const Values& values = Values()) {
    return op.part(
        role, op.storage(dtype, {size.slots(), size.hidden}),
        [rows = order.rows](const Tensor& whole) { return whole.slice(0, 0, rows); }, values);
}
Operand slots_of(OpCase& op, Role role, const Size& size, const Order& order,
                 const Values& values = Values()) {
    return op.part(
        role, op.storage(DType::i32, {size.slots()}),
        [rows = order.rows](const Tensor& whole) { return whole.slice(0, 0, rows); }, values);
}
/// With the rows behind.
Tensor whole_rows(const Tensor& rows, const Size& size) {
    return {rows.data(), rows.dtype(), {size.slots(), size.hidden}};
}
Tensor whole_slots(const Tensor& slots, const Size& size) {
    return {slots.data(), slots.dtype(), {size.slots()}};
}

OpCase group(const Size& size, Choice choice) {
    OpCase op = make_case(text("group_by_expert ", static_cast<int>(choice)), size, DType::f32);
    const Order order(size, choice);
    const Shape shape = {size.tokens, size.per_token};
    const auto chosen = op.input(DType::i32, shape, given(choices(size, choice)));
    const auto offsets = op.output(DType::i32, {size.experts + 1});
    const auto slots = slots_of(op, Role::output, size, order);
    const auto places = op.output(DType::i32, shape);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GroupByExpert{.chosen = at[chosen],
                                  .offsets = at[offsets],
                                  .slots = whole_slots(at[slots], size),
                                  .places = at[places]});
    };
    op.reference = [=](Arrays& at) {
        reference::group_by_expert(at[chosen], at[offsets], at[slots], at[places]);
    };
    return op;
}

OpCase gather(const Size& size, DType dtype, Choice choice, bool weighted, std::int64_t gap) {
    OpCase op = make_case(
        text("gather_rows ", static_cast<int>(choice), weighted ? " weights" : "", " gap", gap),
        size, dtype);
    const Order order(size, choice);
    const auto x = op.input(dtype, {size.tokens, size.hidden}, random_values(), gap);
    const auto slots = slots_of(op, Role::input, size, order, given(order.slots));
    const auto offsets = op.input(DType::i32, {size.experts + 1}, given(order.offsets));
    const auto rows = rows_of(op, Role::output, dtype, size, order);
    const auto weights =
        weighted ? op.input(DType::f32, {size.tokens, size.per_token}, random_values()) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GatherRows{.x = at[x],
                               .slots = whole_slots(at[slots], size),
                               .offsets = at[offsets],
                               .per_token = size.per_token,
                               .rows = whole_rows(at[rows], size),
                               .weights = at[weights]});
    };
    op.reference = [=](Arrays& at) {
        reference::gather_rows(at[x], at[slots], at[weights], size.per_token, at[rows]);
    };
    return op;
}

OpCase place(const Messages& to, Choice choice, bool counts) {
    const Size& size = to.size;
    OpCase op = make_case(text("place_rows ", static_cast<int>(choice), " P", to.ranks, " C",
                               to.length, counts ? " counts" : ""),
                          size, DType::f32);
    const Shape shape = {size.tokens, size.per_token};
    const auto chosen = op.input(DType::i32, shape, given(choices(size, choice)));
    const auto weights = op.input(DType::f32, shape, random_values());
    const auto places = op.output(DType::i32, shape);
    const auto slots = op.output(DType::i32, to.shape());
    const auto experts = op.output(DType::i32, to.shape());
    const auto weighted = op.output(DType::f32, to.shape());
    const auto unplaced = counts ? op.updated(DType::f64, {1}, constant(3)) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(PlaceRows{.chosen = at[chosen],
                              .weights = at[weights],
                              .experts_per_rank = to.experts_per_rank(),
                              .places = at[places],
                              .slots = at[slots],
                              .experts = at[experts],
                              .weighted = at[weighted],
                              .unplaced = at[unplaced]});
    };
    op.reference = [=](Arrays& at) {
        reference::place_rows(at[chosen], at[weights], to.experts_per_rank(), at[places], at[slots],
                              at[experts], at[weighted], at[unplaced]);
    };
    return op;
}

/// All rows of the messages, of which some have no slot.
OpCase gather_messages(const Messages& to, DType dtype, Choice choice, bool weighted) {
    const Size& size = to.size;
    OpCase op = make_case(text("gather_rows ", static_cast<int>(choice), " P", to.ranks, " C",
                               to.length, weighted ? " weights" : ""),
                          size, dtype);
    const auto x = op.input(dtype, {size.tokens, size.hidden}, random_values());
    const auto slots =
        op.input(DType::i32, {to.ranks * to.length}, given(message_slots(to, choice)));
    const auto rows = op.output(dtype, {to.ranks * to.length, size.hidden});
    const auto weights =
        weighted ? op.input(DType::f32, {size.tokens, size.per_token}, random_values()) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GatherRows{.x = at[x],
                               .slots = at[slots],
                               .offsets = {},
                               .per_token = size.per_token,
                               .rows = at[rows],
                               .weights = at[weights]});
    };
    op.reference = [=](Arrays& at) {
        reference::gather_rows(at[x], at[slots], at[weights], size.per_token, at[rows]);
    };
    return op;
}

OpCase combine(const Size& size, DType dtype, Choice choice, bool weighted, bool accumulate,
               std::int64_t gap) {
    OpCase op =
        make_case(text("combine_rows ", static_cast<int>(choice), weighted ? " weights" : "",
                       accumulate ? " accumulate" : "", " gap", gap),
                  size, dtype);
    const Order order(size, choice);
    const Shape slots = {size.tokens, size.per_token};
    const Shape shape = {size.tokens, size.hidden};
    const auto rows = rows_of(op, Role::input, dtype, size, order, random_values());
    const auto places = op.input(DType::i32, slots, given(order.places));
    const auto weights = weighted ? op.input(DType::f32, slots, random_values()) : none;
    const auto y =
        accumulate ? op.updated(dtype, shape, random_values(3), gap) : op.output(dtype, shape, gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(CombineRows{.rows = whole_rows(at[rows], size),
                                .places = at[places],
                                .weights = at[weights],
                                .y = at[y],
                                .accumulate = accumulate});
    };
    op.reference = [=](Arrays& at) {
        reference::combine_rows(at[rows], at[places], at[weights], at[y],
                                accumulate ? reference::Result::added : reference::Result::stored);
    };
    return op;
}

OpCase weight(const Size& size, DType dtype, Choice choice, bool with_bias) {
    OpCase op = make_case(
        text("weight_rows ", with_bias ? "with bias " : "", static_cast<int>(choice)), size, dtype);
    const Order order(size, choice);
    const Shape shape = {size.tokens, size.per_token};
    const auto a = rows_of(op, Role::input, dtype, size, order, random_values());
    const auto da = rows_of(op, Role::updated, dtype, size, order, random_values());
    const auto places = op.input(DType::i32, shape, given(order.places));
    const auto weights = op.input(DType::f32, shape, random_values());
    const auto dweights = op.output(DType::f32, shape);
    // The rows before the product may have another width.
    const std::int64_t hidden = size.hidden + 3;
    const auto input = [&](DType type, const Shape& of, const Values& values) {
        return with_bias ? op.input(type, of, values) : none;
    };
    const auto bias = input(dtype, {size.experts, hidden}, random_values());
    const auto dy = input(dtype, {size.tokens, hidden}, random_values());
    const auto offsets = input(DType::i32, {size.experts + 1}, given(order.offsets));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(WeightRows{.a = whole_rows(at[a], size),
                               .da = whole_rows(at[da], size),
                               .places = at[places],
                               .weights = at[weights],
                               .dweights = at[dweights],
                               .added = {at[bias], at[dy], at[offsets]}});
    };
    op.reference = [=](Arrays& at) {
        reference::weight_rows(at[a], at[da], at[places], at[weights],
                               {at[bias], at[dy], at[offsets]}, at[dweights]);
    };
    return op;
}

OpCase gate(const Size& size, DType dtype, bool in_place) {
    OpCase op = make_case(in_place ? "gate_rows in place" : "gate_rows", size, dtype);
    const Shape shape = {size.tokens, size.hidden};
    const auto x = in_place ? op.updated(dtype, shape, random_values())
                            : op.input(dtype, shape, random_values());
    const auto logits = op.input(DType::f32, {size.tokens, 1}, random_values(3));
    const auto y = in_place ? x : op.output(dtype, shape);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GateRows{.x = at[x], .logits = at[logits], .y = at[y]});
    };
    op.reference = [=](Arrays& at) { reference::gate_rows(at[x], at[logits], at[y]); };
    return op;
}

OpCase gate_backward(const Size& size, DType dtype) {
    OpCase op = make_case("gate_rows_backward", size, dtype);
    const Shape shape = {size.tokens, size.hidden};
    const auto x = op.input(dtype, shape, random_values());
    const auto logits = op.input(DType::f32, {size.tokens, 1}, random_values(3));
    const auto dy = op.input(dtype, shape, random_values());
    const auto dx = op.output(dtype, shape);
    const auto dlogits = op.output(DType::f32, {size.tokens, 1});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GateRowsBackward{
            .x = at[x], .logits = at[logits], .dy = at[dy], .dx = at[dx], .dlogits = at[dlogits]});
    };
    op.reference = [=](Arrays& at) {
        reference::gate_rows_backward(at[x], at[logits], at[dy], at[dx], at[dlogits]);
    };
    return op;
}

void add_rows(std::vector<OpCase>& cases, const Size& size, DType dtype, Choice choice) {
    for (const std::int64_t gap : {0, 3}) {
        for (const bool weighted : {false, true}) {
            cases.push_back(gather(size, dtype, choice, weighted, gap));
            for (const bool accumulate : {false, true})
                cases.push_back(combine(size, dtype, choice, weighted, accumulate, gap));
        }
    }
    cases.push_back(weight(size, dtype, choice, false));
    cases.push_back(weight(size, dtype, choice, true));
}

}  // namespace

std::vector<OpCase> expert_cases() {
    std::vector<OpCase> cases;
    for (const Size& size : sizes) {
        for (const Choice choice : {Choice::all, Choice::some, Choice::none, Choice::first}) {
            if (size.large && choice != Choice::all) continue;
            cases.push_back(group(size, choice));
            for (const DType dtype : compute_dtypes)
                add_rows(cases, size, dtype, choice);
        }
        for (const DType dtype : compute_dtypes) {
            for (const bool in_place : {false, true})
                cases.push_back(gate(size, dtype, in_place));
            cases.push_back(gate_backward(size, dtype));
        }
    }
    for (const Messages& to : messages) {
        for (const Choice choice : {Choice::all, Choice::some, Choice::none, Choice::first}) {
            if (to.size.large && choice != Choice::all) continue;
            for (const bool counts : {false, true})
                cases.push_back(place(to, choice, counts));
            for (const DType dtype : compute_dtypes) {
                for (const bool weighted : {false, true})
                    cases.push_back(gather_messages(to, dtype, choice, weighted));
            }
        }
    }
    return cases;
}

}  // namespace gptrain
