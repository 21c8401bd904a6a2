#include "dynamic_symbols.h"

#include <cstdint>
#include <cstring>
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

// glibc relocates these addresses in place. The kernel's library of system calls (vDSO) keeps offsets.
const void *address_in(const dl_phdr_info &library, ElfW(Addr) value) noexcept {
    return reinterpret_cast<const void *>(value < library.dlpi_addr ? value + library.dlpi_addr : value);
}

symbol_table read_symbols(const dl_phdr_info &library, const ElfW(Dyn) * dynamic) noexcept {
    symbol_table found;
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
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

// The table has no field for its length: the hash tables tell it.
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
    while (!(chains[last - first] & 1)) // the last of a chain has the lowest bit set
        ++last;
    return last + 1;
}

struct search {
    const char *name;
    const void *here; // an address in this library
    bool has_passed_here = false;
    void *found = nullptr;
};

bool contains(const dl_phdr_info &library, const void *address) noexcept {
    const auto wanted = reinterpret_cast<ElfW(Addr)>(address);
    for (int i = 0; i < library.dlpi_phnum; ++i) {
        const ElfW(Phdr) &segment = library.dlpi_phdr[i];
        const ElfW(Addr) begin = library.dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && wanted >= begin && wanted - begin < segment.p_memsz) return true;
    }
    return false;
}

void *find_in(const dl_phdr_info &library, const char *name) noexcept {
    constexpr ElfW(Half) hidden = 0x8000; // a version that only references by that version find
    for (int i = 0; i < library.dlpi_phnum; ++i) {
        if (library.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const auto *dynamic = reinterpret_cast<const ElfW(Dyn) *>(library.dlpi_addr + library.dlpi_phdr[i].p_vaddr);
        const symbol_table table = read_symbols(library, dynamic);
        if (!table.symbols || !table.names) return nullptr;
        const std::uint32_t count = count_symbols(table);
        for (std::uint32_t k = 0; k < count; ++k) {
            const ElfW(Sym) &symbol = table.symbols[k];
            if (symbol.st_shndx == SHN_UNDEF || (symbol.st_info & 0xf) != STT_FUNC) continue;
            if (table.versions && table.versions[k] & hidden) continue;
            if (std::strcmp(table.names + symbol.st_name, name) == 0)
                return reinterpret_cast<void *>(library.dlpi_addr + symbol.st_value);
        }
    }
    return nullptr;
}

int look_into(dl_phdr_info *library, std::size_t, void *argument) {
    auto &asked = *static_cast<search *>(argument);
    if (!asked.has_passed_here)
        asked.has_passed_here = contains(*library, asked.here);
    else
        asked.found = find_in(*library, asked.name);
    return asked.found != nullptr;
}

} // namespace

void *find_next_definition(const char *name) noexcept {
    static const char here = 0;
    search asked{name, &here};
    dl_iterate_phdr(look_into, &asked);
    return asked.found;
}

} // namespace ferry_run
