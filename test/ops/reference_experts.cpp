// The references of the rows of experts and of their linear layers.
#include "base/at.h"
#include "reference.h"

namespace gptrain::reference {

// ---- rows by expert ----

void group_by_expert(const Array& chosen, Array& offsets, Array& slots, Array& places) {
    std::int64_t row = 0;
    for (Bounded& place : places.values())
        place = -1.0;
    for (std::int64_t e = 0; e < offsets.size(0); ++e) {
        offsets(e) = static_cast<double>(row);
        for (std::size_t slot = 0; slot < chosen.values().size(); ++slot) {
            if (chosen.values()[slot].value != static_cast<double>(e)) continue;
            slots(row) = static_cast<double>(slot);
            places.values()[slot] = static_cast<double>(row++);
        }
    }
}

void place_rows(const Array& chosen, const Array& weights, std::int64_t experts_per_rank,
                Array& places, Array& slots, Array& experts, Array& weighted, Array& unplaced) {
    const std::int64_t count = std::ssize(chosen.values());
    for (std::int64_t slot = 0; slot < count; ++slot)
        places(slot) = -1.0;
    for (std::int64_t rank = 0; rank < slots.size(0); ++rank) {
        std::vector<std::int64_t> own;
        for (std::int64_t slot = 0; slot < count; ++slot) {
            const std::int64_t expert = chosen.integer(slot) - rank * experts_per_rank;
            if (expert >= 0 && expert < experts_per_rank) own.push_back(slot);
        }
        for (std::int64_t i = 0; i < slots.size(1); ++i) {
            const bool filled = i < std::ssize(own);
            const std::int64_t slot = filled ? at(own, i) : -1;
            slots(rank, i) = static_cast<double>(slot);
            experts(rank, i) =
                filled ? static_cast<double>(chosen.integer(slot) - rank * experts_per_rank) : -1.0;
            weighted(rank, i) = filled ? weights(slot) : Bounded(0.0);
            if (filled) places(slot) = static_cast<double>(rank * slots.size(1) + i);
        }
        const std::int64_t over = std::max<std::int64_t>(std::ssize(own) - slots.size(1), 0);
        if (!unplaced.empty()) unplaced(0).value += static_cast<double>(over);
    }
}

void gather_rows(const Array& x, const Array& slots, const Array& weights, std::int64_t per_token,
                 Array& rows) {
    for (std::int64_t r = 0; r < rows.size(0); ++r) {
        const std::int64_t slot = slots.integer(r);
        for (std::int64_t h = 0; h < rows.size(1); ++h) {
            if (slot < 0) {
                rows(r, h) = 0.0;
                continue;
            }
            const Bounded value = x(slot / per_token, h);
            rows(r, h) = weights.empty() ? value : weights(slot) * value;
        }
    }
}

void combine_rows(const Array& rows, const Array& places, const Array& weights, Array& y,
                  Result result) {
    for (std::int64_t t = 0; t < y.size(0); ++t) {
        for (std::int64_t h = 0; h < y.size(1); ++h) {
            Sum sum;
            for (std::int64_t j = 0; j < places.size(1); ++j) {
                const std::int64_t row = places.integer(t, j);
                if (row < 0) continue;
                sum.add(weights.empty() ? rows(row, h) : weights(t, j) * rows(row, h));
            }
            if (result == Result::added) sum.add(y(t, h));
            y(t, h) = sum.result();
        }
    }
}

void weight_rows(const Array& a, Array& da, const Array& places, const Array& weights,
                 const RowsBias& added, Array& dweights) {
    for (std::size_t slot = 0; slot < places.values().size(); ++slot) {
        const auto i = static_cast<std::int64_t>(slot);
        const std::int64_t row = places.integer(i);
        dweights(i) = 0.0;
        if (row < 0) continue;
        Sum sum;
        for (std::int64_t f = 0; f < a.size(1); ++f) {
            sum.add(a(row, f) * da(row, f));
            da(row, f) = weights(i) * da(row, f);
        }
        if (!added.bias.empty()) {
            std::int64_t expert = 0;
            while (row >= added.offsets.integer(expert + 1))
                ++expert;
            for (std::int64_t h = 0; h < added.bias.size(1); ++h)
                sum.add(added.bias(expert, h) * added.dy(i / places.size(1), h));
        }
        dweights(i) = sum.result();
    }
}

void gate_rows(const Array& x, const Array& logits, Array& y) {
    for (std::int64_t t = 0; t < y.size(0); ++t) {
        for (std::int64_t h = 0; h < y.size(1); ++h)
            y(t, h) = logistic(logits(t)) * x(t, h);
    }
}

void gate_rows_backward(const Array& x, const Array& logits, const Array& dy, Array& dx,
                        Array& dlogits) {
    gate_rows(dy, logits, dx);
    for (std::int64_t t = 0; t < x.size(0); ++t) {
        Sum sum;
        for (std::int64_t h = 0; h < x.size(1); ++h)
            sum.add(x(t, h) * dy(t, h));
        const Bounded s = logistic(logits(t));
        dlogits(t) = s * (1.0 - s) * sum.result();
    }
}

// ---- grouped linear layers ----

void grouped_forward(const Array& x, const Array& weight, const Array& bias, const Array& offsets,
                     Array& y) {
    const std::int64_t outputs = weight.size(2);
    for (std::int64_t e = 0; e < weight.size(1); ++e) {
        for (std::int64_t r = offsets.integer(e); r < offsets.integer(e + 1); ++r) {
            for (std::int64_t o = 0; o < y.size(1); ++o) {
                Sum sum;
                for (std::int64_t i = 0; i < x.size(1); ++i)
                    sum.add(x(r, i) * weight(o / outputs, e, o % outputs, i));
                if (!bias.empty()) sum.add(bias(o / outputs, e, o % outputs));
                y(r, o) = sum.result();
            }
        }
    }
}

void grouped_input_grad(const Array& dy, const Array& weight, const Array& offsets, Array& dx) {
    const std::int64_t outputs = weight.size(2);
    for (std::int64_t e = 0; e < weight.size(1); ++e) {
        for (std::int64_t r = offsets.integer(e); r < offsets.integer(e + 1); ++r) {
            for (std::int64_t i = 0; i < dx.size(1); ++i) {
                Sum sum;
                for (std::int64_t o = 0; o < dy.size(1); ++o)
                    sum.add(dy(r, o) * weight(o / outputs, e, o % outputs, i));
                dx(r, i) = sum.result();
            }
        }
    }
}

void grouped_weight_grad(const Array& x, const Array& dy, const Array& offsets, Array& dweight,
                         Result result) {
    const std::int64_t outputs = dweight.size(2);
    for (std::int64_t e = 0; e < dweight.size(1); ++e) {
        for (std::int64_t o = 0; o < dy.size(1); ++o) {
            for (std::int64_t i = 0; i < x.size(1); ++i) {
                Sum sum;
                Bounded& value = dweight(o / outputs, e, o % outputs, i);
                if (result == Result::added) sum.add(value);
                for (std::int64_t r = offsets.integer(e); r < offsets.integer(e + 1); ++r)
                    sum.add(dy(r, o) * x(r, i));
                value = sum.result();
            }
        }
    }
}

void grouped_bias_grad(const Array& dy, const Array& offsets, Array& dbias) {
    const std::int64_t outputs = dbias.size(2);
    for (std::int64_t e = 0; e < dbias.size(1); ++e) {
        for (std::int64_t o = 0; o < dy.size(1); ++o) {
            Sum sum;
            Bounded& value = dbias(o / outputs, e, o % outputs);
            sum.add(value);
            for (std::int64_t r = offsets.integer(e); r < offsets.integer(e + 1); ++r)
                sum.add(dy(r, o));
            value = sum.result();
        }
    }
}

}  // namespace gptrain::reference
