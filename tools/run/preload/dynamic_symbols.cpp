#include "dynamic_symbols.h"

#include <cstdint>
#include <elf.h>
#include <link.h>

namespace ferry_run {

namespace {

// The parts of a library's dynamic section that a look-up by name needs.
struct symbol_table {
    const ElfW(Sym) *symbols = nullptr;
    const char *names = nullptr;
    const ElfW(Half) *versions = nullptr;
    const std::uint32_t *gnu_hash = nullptr;
    const std::uint32_t *hash = nullptr;
};

// glibc relocates these addresses in place. The kernel's vDSO keeps offsets.
const void *address_in(const link_map &library, ElfW(Addr) value) noexcept {
    return reinterpret_cast<const void *>(value < library.l_addr ? value + library.l_addr : value);
}

symbol_table read_symbols(const link_map &library) noexcept {
    symbol_table found;
    for (const ElfW(Dyn) *dynamic = library.l_ld; dynamic->d_tag != DT_NULL; ++dynamic) {
        const void *const at = address_in(library, dynamic->d_un.d_ptr);
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            found.symbols = static_cast<const ElfW(Sym) *>(at);
            break;
        case DT_STRTAB:
            found.names = static_cast<const char *>(at);
            break;
        case DT_VERSYM:
            found.versions = static_cast<const ElfW(Half) *>(at);
            break;
        case DT_GNU_HASH:
            found.gnu_hash = static_cast<const std::uint32_t *>(at);
            break;
        case DT_HASH:
            found.hash = static_cast<const std::uint32_t *>(at);
            break;
        default:
            break;
        }
    }
    return found;
}

// The table does not contain its length, which follows from the hash tables.
std::uint32_t count_symbols(const symbol_table &table) noexcept {
    if (table.hash) return table.hash[1];
    if (!table.gnu_hash) return 0;
    const std::uint32_t buckets = table.gnu_hash[0], first = table.gnu_hash[1], words = table.gnu_hash[2];
    const std::uint32_t *const heads = table.gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
    const std::uint32_t *const chains = heads + buckets;
    std::uint32_t last = 0;
    for (std::uint32_t bucket = 0; bucket < buckets; ++bucket)
        last = heads[bucket] > last ? heads[bucket] : last;
    if (last < first) return first;
    while (!(chains[last - first] & 1)) // the lowest bit marks the last entry of a chain
        ++last;
    return last + 1;
}

void *find_in(const link_map &library, const char *name) noexcept {
    constexpr ElfW(Half) hidden = 0x8000; // a version that is found only by references to that version
    const symbol_table table = read_symbols(library);
    if (!table.symbols || !table.names) return nullptr;
    const std::uint32_t count = count_symbols(table);
    for (std::uint32_t k = 0; k < count; ++k) {
        const ElfW(Sym) &symbol = table.symbols[k];
        if (symbol.st_shndx == SHN_UNDEF || (symbol.st_info & 0xf) != STT_FUNC) continue;
        if (table.versions && table.versions[k] & hidden) continue;
        if (are_equal(table.names + symbol.st_name, name))
            return reinterpret_cast<void *>(library.l_addr + symbol.st_value);
    }
    return nullptr;
}

// The list contains the libraries that the program started with in look-up order, followed by libraries that were
// opened later.
const link_map *find_this_library() noexcept {
    const link_map *library = _r_debug.r_map;
    while (library && library->l_ld != _DYNAMIC)
        library = library->l_next;
    return library;
}

} // namespace

bool are_equal(const char *one, const char *other) noexcept {
    while (*one && *one == *other)
        ++one, ++other;
    return *one == *other;
}

void *find_next_definition(const char *name) noexcept {
    const link_map *library = find_this_library();
    void *found = nullptr;
    while (library && !found) {
        library = library->l_next;
        found = library ? find_in(*library, name) : nullptr;
    }
    return found;
}

bool is_first_definition_behind(const link_map *library, const char *name) noexcept {
    const link_map *const own = find_this_library();
    for (library = library->l_next; library && library != own; library = library->l_next)
        if (find_in(*library, name)) return false;
    return library != nullptr;
}

} // namespace ferry_run
