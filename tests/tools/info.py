#!/usr/bin/env python3
"""Runs ferry-info on the software driver. The JSON must describe that driver, and the table must say the same.
Usage: info.py PROGRAM"""
import json
import os
import subprocess
import sys
import tempfile
import time

program = sys.argv[1:] # behind the command of an emulator, in a cross build
handle_types = [] if program[-1].endswith(".exe") else ["posix_fd"] # Windows shares nothing between processes here


def run(*arguments):
    return run_all(*arguments).stdout


def run_all(*arguments):
    return subprocess.run([*program, "--driver", "software", *arguments], check=True, capture_output=True, text=True)


told = json.loads(run("--json"))
assert told["driver"] == "software" and told["why_software"] is None and told["missing_entry_points"] == [], told
assert [device["device"] for device in told["devices"]] == [0, 1]
for device in told["devices"]:
    assert device["is_software"] and device["copy_engines"] == 3 and device["total_memory"] == 4 << 30, device
    assert device["link"] is None, "its PCI address is no real machine's"
    assert device["memory_pools"] and device["pool_handle_types"] == handle_types, device
    for flag in ["host_memory_pools", "host_numa_memory_pools", "ipc_events"]:
        assert isinstance(device[flag], bool), (flag, device)
    pool = device["default_pool"]
    assert pool["release_threshold"] == 0, "what the driver's default pool begins with"
    for policy in ["reuse_follow_event_dependencies", "reuse_opportunistic", "reuse_internal_dependencies"]:
        assert pool[policy] is True, pool
    for number in ["reserved_current", "reserved_high", "used_current", "used_high"]:
        assert pool[number] == 0, "nothing has been allocated in this process"
assert [(peer["device"], peer["peer"]) for peer in told["peers"]] == [(0, 1), (1, 0)]
for peer in told["peers"]:
    assert peer["can_access"] and peer["driver_can_access"] and peer["probe"] == "passed", peer
    for rate in ["direct_gigabytes_per_second", "bounced_gigabytes_per_second", "relayed_gigabytes_per_second", "relay_fixed_ns",
                 "direct_fixed_ns", "link_to_peer_gigabytes_per_second", "link_from_peer_gigabytes_per_second"]:
        assert peer[rate] is None, "nothing was measured"
assert told["kernels"] == {"when": "at_open", "loaded": True, "contexts": 2}, told["kernels"]
staging = told["staging"]
assert staging["when"] == "at_open" and 1 <= staging["threads"] <= 8, staging
half = len(os.sched_getaffinity(0)) // 2
assert staging["threads"] == max(2, min(half, 8)) and staging["threads_running"] == max(2, min(half, 16)), staging
assert staging["bytes_per_device"] == 16 << 20, staging
assert 2 * 16 << 20 <= staging["bytes_pinned"] < 2 * 17 << 20, "the rings of both devices, whole"
untested = json.loads(run("--json", "--no-probe"))
assert untested["kernels"] == {"when": "lazy", "loaded": False, "contexts": 0}, untested["kernels"]
assert untested["staging"]["threads_running"] == untested["staging"]["bytes_pinned"] == 0, untested["staging"]
assert all(peer["probe"] == "not run" for peer in untested["peers"])

limits = {each["name"]: each for each in told["limits"]}
is_linux = not program[-1].endswith(".exe")
assert ({"locked memory", "memory of the group"} <= set(limits)) == is_linux, limits
for each in told["limits"]:
    assert each["value"] and (each["effect"] is None) == (each["remedy"] is None), each
assert "registration" not in limits, "the software driver is no GPU"

assert [each["finding"] for each in told["advice"]] == ["No GPU is in use: the software driver copies with the CPU."], told
built_in = "built in, measured on the software driver"
assert all(device["profile"] == built_in for device in told["devices"]), told["devices"]

table = run()
handle_words = ["file descriptors"] if handle_types else ["nothing"]
for words in ["driver               software", "device 1", "kernels              loaded in 2 contexts", "16.0 MiB for each device",
              "memory           4.0 GiB", "copy engines     3", "yes", "pools shared by  " + ", ".join(handle_words),
              "default pool     keeps 0 B of freed memory", "8 SMs", "profile          " + built_in,
              "one address space with the host", "without          kernels that reach pageable memory",
              "is reused by other streams after an event, once the free is complete",
              "\nlimits\n",
              "slow on this machine\n    finding          No GPU is in use", "what to do       Leave out --driver software"]:
    assert words in table, (words, table)
for device in told["devices"]:
    for name in device:
        if "_" in name: assert name not in table, f"{name} is a name for programs"
assert max(map(len, table.splitlines())) <= 110, table
assert "untested" in run("--no-probe") and "kernels              not loaded yet" in run("--no-probe")

measured = run_all("--calibrate", "1")
profile = measured.stdout
title, more, head, *pairs = measured.stderr.splitlines()
columns = ["access", "direct", "bounced", "relayed", "link", "to", "link", "from"]
assert "from device 1" in title and "link of device 1" in more and head.split() == columns, measured.stderr
assert len(pairs) == 1 and pairs[0].split()[:2] == ["0", "yes"], pairs
assert all(float(rate) > 0 for rate in pairs[0].split()[2:]) and len(pairs[0].split()) == 7, pairs
assert profile.startswith("ferry-profile 5\n") and profile.splitlines()[-1].startswith("checksum "), profile
with_rates = run("--peers")
assert "copies between" in with_rates and "copies between" not in run(), with_rates
rows = [line.split() for line in with_rates.split("in brackets: without peer access)\n")[1].splitlines()[:3]]
assert rows[0] == ["0", "1"] and [row[0] for row in rows[1:]] == ["0", "1"], rows
assert rows[1][1] == rows[2][2] == "-" and float(rows[1][2]) > 0 and float(rows[2][1]) > 0, rows
links = [line.split() for line in with_rates.split("to it/from it)\n")[1].splitlines()[:3]]
assert links[1][1] == links[2][2] == "-" and links[1][2].count("/") == 1 and links[2][1].count("/") == 1, links
def pairs_of(profile): return [line.split() for line in profile.splitlines() if line.startswith("pair ")]
addresses = [device["pci_address"] for device in told["devices"]]
assert [pair[1:3] for pair in pairs_of(profile)] == [addresses[::-1]], "from device 1 alone"
all_pairs = pairs_of(run("--calibrate", "1", "--peers"))
assert [pair[1:3] for pair in all_pairs] == [addresses, addresses[::-1]], all_pairs
both = json.loads(run("--calibrate", "0", "--json"))
assert both["profile"].startswith("ferry-profile 5\n"), both["profile"]
for peer in both["peers"]:
    for rate in ["direct_gigabytes_per_second", "bounced_gigabytes_per_second", "relayed_gigabytes_per_second",
                 "link_to_peer_gigabytes_per_second", "link_from_peer_gigabytes_per_second"]:
        assert (peer[rate] is not None and peer[rate] > 0) == (peer["device"] == 0), peer
bounced = str(round(1000 * both["peers"][0]["bounced_gigabytes_per_second"]))
assert pairs_of(both["profile"])[0][5] == bounced, "the profile has the rates of the pair"

# A profile that a program keeps in a file: in force on all equal devices, and as old as the file.
with tempfile.TemporaryDirectory() as folder:
    kept = os.path.join(folder, "kept.profile")
    with open(kept, "w", newline="") as file: file.write(profile)
    assert "kept.profile, less than a day old" in run("--profile", kept), run("--profile", kept)
    days_ago = time.time() - 12.5 * 86400
    os.utime(kept, (days_ago, days_ago))
    told = json.loads(run("--profile", kept, "--json"))
    assert [peer["link_to_peer_gigabytes_per_second"] is None for peer in told["peers"]] == [True, False], told["peers"]
    assert [device["profile"] for device in told["devices"]] == [f"{kept}, 12 days old"] * 2, told["devices"]
    with open(kept, "a") as file: file.write("more")
    for path, why in [(kept, "cannot be loaded"), (kept + "2", "cannot read")]:
        refused = subprocess.run([*program, "--driver", "software", "--profile", path], capture_output=True, text=True)
        assert refused.returncode == 1 and why in refused.stderr and not refused.stdout, refused

version = subprocess.run([*program, "--version"], capture_output=True, text=True)
assert version.returncode == 0 and version.stdout.strip() == "ferry-info " + json.loads(run("--json", "--no-probe"))["ferry"]

absent = subprocess.run([*program, "--driver", "software", "--calibrate", "7"], capture_output=True, text=True)
assert absent.returncode != 0 and "FERRY_ERROR_DEVICE" in absent.stderr, absent

wrong = subprocess.run([*program, "--driver", "none"], capture_output=True, text=True)
assert wrong.returncode != 0 and "--driver" in wrong.stderr, wrong
