// Distributes many jobs over the teams of one launch. Each team processes its units one after another.
#pragma once

#include "kernels/access.h"

namespace ferry::gpu {

// Jobs in the kernel's parameters or in a table. Each job records its first unit, which is the number of units before
// it.
template <class Job> struct jobs_in_parameters {
    const Job *jobs;

    FERRY_KERNEL_CODE Job operator[](u32 index) const { return jobs[index]; }
    FERRY_KERNEL_CODE u32 first_unit(u32 index) const { return jobs[index].first_unit; }
};
template <class Job> struct jobs_in_table {
    u64 table;

    FERRY_KERNEL_CODE Job operator[](u32 index) const { return read_table<Job>(table, index); }
    // first_unit is the last word of a job.
    FERRY_KERNEL_CODE u32 first_unit(u32 index) const {
        constexpr u32 words = sizeof(Job) / sizeof(u32);
        return read_table<u32>(table, u64{index} * words + words - 1);
    }
};

// Finds the job in [first, end) to which a unit belongs. The distance from the guess doubles until the unit is
// enclosed, and the interval is then bisected.
template <class Jobs> FERRY_KERNEL_CODE u32 find_job_from(const Jobs &jobs, u32 first, u32 end, u32 guess, u32 unit) {
    u32 low = guess < end ? guess : end - 1;
    u32 high = low + 1;
    u32 step = 1;
    if (jobs.first_unit(low) <= unit) {
        while (high < end && jobs.first_unit(high) <= unit) {
            low = high;
            high = end - high > step ? high + step : end;
            step *= 2;
        }
    } else {
        do {
            high = low;
            low = low - first > step ? low - step : first;
            step *= 2;
        } while (jobs.first_unit(low) > unit);
    }
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (jobs.first_unit(middle) <= unit)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Finds the job to which a unit belongs. The first guess is correct if all jobs have the same size.
template <class Jobs> FERRY_KERNEL_CODE u32 find_job(const Jobs &jobs, const team_work &work, u32 unit) {
    return find_job_from(jobs, 0, work.count, static_cast<u32>(unit * work.jobs_per_unit >> 32), unit);
}

struct team_member {
    u32 thread, threads;
};

// Calls do_unit(job, unit of the job, member) for the units of this thread's team.
template <class Job, class Jobs, class DoUnit>
FERRY_KERNEL_CODE void do_jobs(const team_work &work, const Jobs &jobs, const thread_index &me, const DoUnit &do_unit) {
    const u64 team = me.in_grid() >> work.team_shift;
    const team_member member = {me.thread & ((1u << work.team_shift) - 1), 1u << work.team_shift};
    const u64 with_one_more = team < work.teams_with_one_more ? team : work.teams_with_one_more;
    u64 unit = team * work.units_per_team + with_one_more;
    const u64 end = unit + work.units_per_team + (team < work.teams_with_one_more);
    if (unit >= end || unit >= work.units) return;

    u32 index = find_job(jobs, work, static_cast<u32>(unit));
    Job current = jobs[index];
    for (;;) {
        // The load of the next job is in flight while the current job is processed.
        const bool has_next = index + 1 < work.count;
        Job next = {};
        if (has_next) next = jobs[index + 1];
        const u64 units_end = has_next ? next.first_unit : work.units;
        FERRY_NOT_UNROLLED
        for (; unit < units_end; ++unit) {
            if (unit == end) return;
            do_unit(current, static_cast<u32>(unit) - current.first_unit, member);
        }
        if (unit == end || !has_next) return;
        current = next;
        ++index;
    }
}

// Calls do_unit(index of the job, unit of the job, member) for the units of this thread's team. Units are assigned to
// teams in rotation, so that units processed at the same time are close together.
template <class Jobs, class DoUnit>
FERRY_KERNEL_CODE void do_jobs_in_turn(const team_work &work, const Jobs &jobs, const thread_index &me,
                                       const DoUnit &do_unit) {
    const u64 teams = u64{me.blocks} * me.threads >> work.team_shift;
    const team_member member = {me.thread & ((1u << work.team_shift) - 1), 1u << work.team_shift};
    u32 index = 0, first_unit = 0;
    u64 units_end = 0;
    FERRY_NOT_UNROLLED
    for (u64 unit = me.in_grid() >> work.team_shift; unit < work.units; unit += teams) {
        if (unit >= units_end) {
            index = find_job(jobs, work, static_cast<u32>(unit));
            first_unit = jobs.first_unit(index);
            units_end = index + 1 < work.count ? jobs.first_unit(index + 1) : work.units;
        }
        do_unit(index, static_cast<u32>(unit) - first_unit, member);
    }
}

} // namespace ferry::gpu
