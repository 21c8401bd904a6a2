// The exhaustive search over every state that a model can reach, shortest path first. A model is a set of actors. Each
// actor takes one atomic step at a time, which may have several outcomes. The search reports a broken property, or a
// state from which the end can no longer be reached: a deadlock, or an infinite loop.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ferry::protocol {

// A step's picks among its outcomes. The search runs each step once for every sequence of picks.
class choices {
public:
    // Returns one of 0 to count - 1.
    unsigned pick(unsigned count) {
        if (at_ == taken_.size()) taken_.push_back({0, count});
        return taken_[at_++].first;
    }
    // Starts the next sequence of picks. Returns false after the last one.
    bool advance() {
        at_ = 0;
        while (!taken_.empty() && ++taken_.back().first == taken_.back().second)
            taken_.pop_back();
        return !taken_.empty();
    }

private:
    std::vector<std::pair<unsigned, unsigned>> taken_; // each pick, and its number of outcomes
    std::size_t at_ = 0;
};

// Distinguishes states by two hashes of 64 bits. The probability that two of a million states have equal hashes is
// below 10^-26.
class fingerprint {
public:
    void add(std::uint64_t word) {
        low_ = (low_ ^ word) * 0x9e3779b97f4a7c15;
        low_ ^= low_ >> 29;
        high_ = (high_ + word) * 0xd6e8feb86659fd93;
        high_ ^= high_ >> 32;
    }
    template <class Plain> void add_bytes(const Plain &plain) {
        static_assert(std::has_unique_object_representations_v<Plain>, "padding has no value");
        const auto *bytes = reinterpret_cast<const unsigned char *>(&plain);
        for (std::size_t at = 0; at < sizeof plain; at += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes + at, sizeof plain - at < 8 ? sizeof plain - at : 8);
            add(word);
        }
    }
    bool operator==(const fingerprint &) const = default;
    struct hash {
        std::size_t operator()(const fingerprint &of) const { return of.low_; }
    };

private:
    std::uint64_t low_ = 1, high_ = 2;
};

struct finding {
    std::string what;               // empty: nothing was found
    std::vector<std::string> steps; // from the first state to the finding
    std::uint64_t states = 0;

    explicit operator bool() const { return !what.empty(); }
    std::string text() const {
        std::string all = what + "\n";
        for (const std::string &step : steps)
            all += "    " + step + "\n";
        return all;
    }
};

// A Model has:
//     State                      copyable
//     State first()
//     unsigned actors()
//     std::string actor(unsigned)
//     const char *step(State &, unsigned actor, choices &)   what the actor did, or null for nothing
//     const char *broken(const State &)                      the broken property, or null
//     bool is_end(const State &)
//     fingerprint identify(const State &)
template <class Model> class search {
public:
    explicit search(Model &of) : model_(of) {}

    finding run(std::uint64_t max_states) {
        meet(model_.first(), none, 0, "");
        for (std::uint32_t at = 0; !open_.empty(); ++at) {
            const typename Model::State from = std::move(open_.front());
            open_.pop_front();
            for (unsigned actor = 0; actor < model_.actors(); ++actor) {
                choices way;
                do {
                    typename Model::State to = from;
                    const char *const done = model_.step(to, actor, way);
                    if (!done) continue;
                    const std::uint32_t met = meet(std::move(to), at, actor, done);
                    if (broken_) return tell(broken_, met);
                    ways_.push_back({met, at});
                } while (way.advance());
            }
            if (known_.size() > max_states) return tell("the search is larger than its bound", at);
        }
        const std::uint32_t stuck = find_stuck();
        return stuck == none ? tell("", 0) : tell("the end cannot be reached any more", stuck);
    }

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    struct node {
        std::uint32_t parent;
        std::uint32_t actor;
        const char *done;
    };

    std::uint32_t meet(typename Model::State &&state, std::uint32_t parent, unsigned actor, const char *done) {
        const auto [found, is_new] =
            known_.try_emplace(model_.identify(state), static_cast<std::uint32_t>(nodes_.size()));
        if (!is_new) return found->second;
        nodes_.push_back({parent, actor, done});
        broken_ = model_.broken(state);
        if (model_.is_end(state)) ends_.push_back(found->second);
        open_.push_back(std::move(state));
        return found->second;
    }

    // Returns the first state found from which no sequence of steps leads to an end.
    std::uint32_t find_stuck() const {
        const std::size_t count = nodes_.size();
        std::vector<std::uint32_t> begin(count + 1), from(ways_.size());
        for (const auto &[to, source] : ways_)
            ++begin[to];
        for (std::size_t i = 0, sum = 0; i <= count; ++i)
            sum += std::exchange(begin[i], static_cast<std::uint32_t>(sum));
        std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
        for (const auto &[to, source] : ways_)
            from[next[to]++] = source;
        std::vector<bool> is_good(count);
        std::vector<std::uint32_t> open = ends_;
        for (const std::uint32_t end : ends_)
            is_good[end] = true;
        while (!open.empty()) {
            const std::uint32_t to = open.back();
            open.pop_back();
            for (std::uint32_t i = begin[to]; i < begin[to + 1]; ++i) {
                if (is_good[from[i]]) continue;
                is_good[from[i]] = true;
                open.push_back(from[i]);
            }
        }
        for (std::uint32_t at = 0; at < count; ++at)
            if (!is_good[at]) return at;
        return none;
    }

    finding tell(const char *what, std::uint32_t at) const {
        finding found = {what, {}, nodes_.size()};
        if (found)
            for (; at != 0; at = nodes_[at].parent)
                found.steps.insert(found.steps.begin(), model_.actor(nodes_[at].actor) + ": " + nodes_[at].done);
        return found;
    }

    Model &model_;
    std::unordered_map<fingerprint, std::uint32_t, fingerprint::hash> known_;
    std::vector<node> nodes_;
    std::deque<typename Model::State> open_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ways_; // to, from
    std::vector<std::uint32_t> ends_;
    const char *broken_ = nullptr;
};

template <class Model> finding explore(Model &&model, std::uint64_t max_states = 3'000'000) {
    return search<std::remove_reference_t<Model>>(model).run(max_states);
}

} // namespace ferry::protocol
