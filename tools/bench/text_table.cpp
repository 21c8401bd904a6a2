#include "text_table.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <sstream>

#include "units.h"

namespace bench {

namespace {

constexpr std::size_t gap_between_columns = 2;

std::vector<std::string> words_of(const std::string &text) {
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;)
        words.push_back(word);
    return words;
}

std::size_t longest_word(const std::string &text) {
    std::size_t longest = 0;
    for (const std::string &word : words_of(text))
        longest = std::max(longest, width_of(word));
    return longest;
}

// Removes the first `width` columns of a word and returns them. The characters of UTF-8 stay whole.
std::string cut_off(std::string &word, std::size_t width) {
    std::size_t bytes = 0;
    for (std::size_t columns = 0; bytes < word.size(); ++bytes)
        if ((word[bytes] & 0xC0) != 0x80 && ++columns > width) break;
    const std::string part = word.substr(0, bytes);
    word.erase(0, bytes);
    return part;
}

// The widths of a column: of its widest cell, and the narrowest widths that cut no number and that cut no word.
struct column_widths {
    std::size_t now, of_numbers, of_words;
};

class fitted_table {
public:
    fitted_table(const table_lines &lines, std::size_t left_count) : lines_(lines), left_count_(left_count) {
        for (std::size_t i = 0; i < lines.front().size(); ++i)
            widths_.push_back(widths_of_column(i));
        narrow([](const column_widths &width) { return width.of_numbers; }, widths_.size());
        narrow([](const column_widths &width) { return width.of_words; }, left_count);
        narrow([](const column_widths &) { return std::size_t{4}; }, left_count);
        narrow([](const column_widths &) { return std::size_t{1}; }, widths_.size());
    }

    void print(std::ostream &out) const {
        for (const std::vector<std::string> &line : lines_)
            print_line(out, line);
    }

private:
    column_widths widths_of_column(std::size_t column) const {
        column_widths found = {0, longest_word(lines_.front()[column]), 0};
        for (const std::vector<std::string> &line : lines_) {
            const std::string &cell = line[column];
            found.now = std::max(found.now, width_of(cell));
            found.of_words = std::max(found.of_words, longest_word(cell));
            if (&line != &lines_.front()) found.of_numbers = std::max(found.of_numbers, width_of(cell));
        }
        return found;
    }

    std::size_t total() const {
        return std::accumulate(widths_.begin(), widths_.end(), gap_between_columns * (widths_.size() - 1),
                               [](std::size_t sum, const column_widths &width) { return sum + width.now; });
    }

    // Makes the first `count` columns narrower until the table fits, the widest first.
    template <class Least> void narrow(const Least &least, std::size_t count) {
        while (total() > line_width) {
            column_widths *widest = nullptr;
            for (std::size_t i = 0; i < count; ++i)
                if (widths_[i].now > least(widths_[i]) && (!widest || widths_[i].now > widest->now))
                    widest = &widths_[i];
            if (!widest) return;
            --widest->now;
        }
    }

    void print_line(std::ostream &out, const std::vector<std::string> &line) const {
        std::vector<std::vector<std::string>> cells;
        std::size_t height = 1;
        for (std::size_t i = 0; i < line.size(); ++i) {
            cells.push_back(wrapped(line[i], widths_[i].now));
            height = std::max(height, cells.back().size());
        }
        for (std::size_t part = 0; part < height; ++part) {
            std::string printed;
            for (std::size_t i = 0; i < line.size(); ++i) {
                const std::string text = part < cells[i].size() ? cells[i][part] : "";
                const std::string padding(widths_[i].now - width_of(text), ' ');
                const bool is_left = i < left_count_ || i + 1 == line.size();
                printed += (is_left ? text + padding : padding + text) + std::string(gap_between_columns, ' ');
            }
            out << printed.substr(0, printed.find_last_not_of(' ') + 1) << '\n';
        }
    }

    const table_lines &lines_;
    const std::size_t left_count_;
    std::vector<column_widths> widths_;
};

} // namespace

std::vector<std::string> wrapped(const std::string &text, std::size_t width) {
    std::vector<std::string> lines(1);
    for (std::string word : words_of(text)) {
        std::string &line = lines.back();
        if (!line.empty() && width_of(line) + 1 + width_of(word) <= width) {
            line += ' ' + word;
            continue;
        }
        if (!line.empty()) lines.emplace_back();
        while (width_of(word) > width) {
            lines.back() = cut_off(word, width);
            lines.emplace_back();
        }
        lines.back() = word;
    }
    return lines;
}

std::string shortened(const std::string &text, std::size_t width) {
    if (width_of(text) <= width) return text;
    std::string rest = text;
    return cut_off(rest, width - 1) + "…";
}

void print_paragraph(std::ostream &out, const std::string &text) {
    for (const std::string &line : wrapped(text, line_width))
        out << line << '\n';
}

void print_table(std::ostream &out, const table_lines &lines, std::size_t left_count) {
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto &line : lines)
        for (std::size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], width_of(line[i]));
    for (const auto &line : lines) {
        for (std::size_t i = 0; i + 1 < line.size(); ++i) {
            const std::string padding(widths[i] - width_of(line[i]), ' ');
            out << (i < left_count ? line[i] + padding : padding + line[i]) << "  ";
        }
        out << line.back() << '\n';
    }
}

void print_fitted_table(std::ostream &out, const table_lines &lines, std::size_t left_count) {
    fitted_table(lines, left_count).print(out);
}

} // namespace bench
