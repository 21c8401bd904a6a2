// Paragraphs and tables of text. No line of a paragraph or of a fitted table is longer than 100 columns.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace bench {

inline constexpr std::size_t line_width = 100; // columns

using table_lines = std::vector<std::vector<std::string>>; // the first line contains the names of the columns

// Splits a text at its spaces into lines of at most `width` columns. A longer word is cut.
std::vector<std::string> wrapped(const std::string &text, std::size_t width);

// Returns the text, or its first columns and "…" if it has more than `width` columns.
std::string shortened(const std::string &text, std::size_t width);

// Prints the text as one paragraph. Line breaks in the text count as spaces.
void print_paragraph(std::ostream &out, const std::string &text);

// Aligns the first `left_count` columns and the last column to the left, and the other columns, which contain numbers,
// to the right.
void print_table(std::ostream &out, const table_lines &lines, std::size_t left_count);

// Same as print_table, but wraps the cells of a table that is too wide: first the names of the columns, then the
// left-aligned columns, the widest first.
void print_fitted_table(std::ostream &out, const table_lines &lines, std::size_t left_count);

} // namespace bench
