"""Makes results as ferry-bench --json writes them, for tests of what reads them. The numbers of the H200 in
docs/performance.md served as patterns; they are no measurements."""


def distribution(median, spread=0.02):
    """`spread`: the distance of the quartiles from the median, as a share of the median."""
    return {"median": median, "p25": median * (1 - spread), "p75": median * (1 + spread), "p10": median * (1 - 2 * spread),
            "p90": median * (1 + 2 * spread), "p99": median * (1 + 5 * spread), "least": median * (1 - 3 * spread),
            "samples": 100}


def row(labels, size, raw_ns, ferry_ns, spread=0.02, **more):
    return {"labels": labels, "bytes": size, "raw_ns": distribution(raw_ns, spread),
            "ferry_ns": distribution(ferry_ns, spread), "ratio": distribution(raw_ns / ferry_ns, spread), "target": None,
            "max_ns": None, "ceiling_gb_per_s": None, "reference_ns": None, "choice": None, "of_link": None,
            "verdict": "no target", **more}


def case(name, rows=(), **more):
    return {"name": name, "summary": f"made up {name}", "rows": list(rows), "note": "a note", "seconds": 1.5, **more}


def results(cases, is_software=False, **more):
    machine = {"device": 0, "device_name": "ferry software device" if is_software else "NVIDIA H200",
               "pci_address": "0000:3B:00.0", "driver_version": 13000, "is_software": is_software, "device_count": 2,
               "device_memory_bytes": 141 << 30, "sm_count": 132, "copy_engines": 3,
               "link": {"gigatransfers_per_second": 32.0, "lanes": 16, "gigabytes_per_second": 63.0},
               "processor": "A Processor <of 2026>", "processors": 16, "staging_threads": 8, "staging_bytes": 16 << 20}
    return {"date": "2026-01-02T03:04:05Z", "quick": False, "ferry_version": "9.8.7", "machine": machine,
            "opening_ns": {"first_open_with_cuInit": 2e8, "open": 59800.0, "close": 6740.0},
            "ceilings_gb_per_s": {"H2D": 55.4, "D2H": 55.3, "D2D": 2098.0}, "cases": list(cases), "complete": True, **more}
