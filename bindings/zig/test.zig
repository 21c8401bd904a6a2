//! Tests of ferry.zig on the software driver.
const std = @import("std");
const ferry = @import("ferry");
const expect = std.testing.expect;

fn open() !*ferry.ferry_instance {
    return open_with(null);
}

fn open_with(copy_options: ?*const ferry.ferry_copy_options) !*ferry.ferry_instance {
    const options = ferry.ferry_options{ .driver = ferry.FERRY_DRIVER_SOFTWARE, .copy_options = copy_options };
    var f: ?*ferry.ferry_instance = null;
    try expect(ferry.ferry_open(&options, &f, null) == 0);
    return f.?;
}

test "an error has side, field, value, limit and a line" {
    const f = try open();
    defer ferry.ferry_close(f);
    var bytes: [100]u8 = @splat(0);
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, bytes.len, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    var copy = ferry.ferry_copy_desc{ .width = 8, .height = 2 };
    ferry.ferry_place_host(&copy.source, &bytes);
    ferry.ferry_place_device_pitched(&copy.destination, 0, memory, 4, 0);
    var info = ferry.ferry_error_info{};
    try expect(ferry.ferry_copy(f, &copy, null, &info) == ferry.FERRY_ERROR_PITCH);
    try expect(info.side == ferry.FERRY_SIDE_DESTINATION and info.field == ferry.FERRY_FIELD_ROW_PITCH);
    try expect(info.value == 4 and info.limit == 8);
    var line: [256]u8 = undefined;
    _ = ferry.ferry_error_format(&info, &line, line.len);
    const expected = "destination.row_pitch: 4, must be at least 8 (FERRY_ERROR_PITCH)";
    try std.testing.expectEqualStrings(expected, std.mem.sliceTo(&line, 0));
}

test "every call has the details of its error" {
    const f = try open();
    defer ferry.ferry_close(f);
    var info = ferry.ferry_error_info{};
    try expect(ferry.ferry_staging_prepare(f, 99, &info) == ferry.FERRY_ERROR_DEVICE);
    try expect(info.field == ferry.FERRY_FIELD_DEVICE and info.value == 99);
    var events: [2]?*ferry.CUevent_st = @splat(null);
    for (&events) |*event| try expect(ferry.ferry_event_create(f, 0, 0, event, &info) == 0);
    defer for (events) |event| std.debug.assert(ferry.ferry_event_destroy(f, event.?, null) == 0);
    var time: f32 = 0;
    const status = ferry.ferry_event_elapsed_time(f, events[0].?, events[1].?, &time, &info); // neither was recorded
    try expect(status == ferry.FERRY_STATUS_DRIVER_BASE - 400 and info.status == status);
    try std.testing.expectEqualStrings("cuEventElapsedTime", std.mem.span(info.driver_function.?));
}

fn info_of(ticket: ?*ferry.ferry_ticket) !ferry.ferry_ticket_info {
    try expect(ferry.ferry_ticket_wait(ticket.?, ferry.FERRY_NO_TIMEOUT, null) == 0);
    var info = ferry.ferry_ticket_info{};
    try expect(ferry.ferry_ticket_get_info(ticket.?, &info, null) == 0);
    try expect(ferry.ferry_ticket_release(ticket.?, null) == 0);
    return info;
}

test "options force a route, and their tag arrives in the ticket" {
    const f = try open_with(&.{ .route = ferry.FERRY_ROUTE_STAGED, .tag = 7 });
    defer ferry.ferry_close(f);
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, 64, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    const bytes: [64]u8 = @splat(1);
    var copy = ferry.ferry_copy_desc{ .width = bytes.len };
    ferry.ferry_place_host(&copy.source, &bytes);
    ferry.ferry_place_device(&copy.destination, 0, memory);
    const by_driver = ferry.ferry_copy_options{ .route = ferry.FERRY_ROUTE_DRIVER, .tag = std.math.maxInt(u64) };
    var ticket: ?*ferry.ferry_ticket = null;
    try expect(ferry.ferry_copy_async(f, &copy, null, null, &ticket, null) == 0);
    var info = try info_of(ticket);
    try expect(info.route == ferry.FERRY_ROUTE_STAGED and info.tag == 7);
    try expect(ferry.ferry_copy_async(f, &copy, &by_driver, null, &ticket, null) == 0);
    info = try info_of(ticket);
    try expect(info.route == ferry.FERRY_ROUTE_DRIVER and info.tag == std.math.maxInt(u64));
    const copies = [_]ferry.ferry_copy_desc{copy};
    try expect(ferry.ferry_copy_batch_async(f, &copies, 1, &.{ .tag = 8 }, null, &ticket, null) == 0);
    info = try info_of(ticket);
    try expect(info.tag == 8 and info.bytes_total == bytes.len);
    const pieces = [_]ferry.ferry_piece{.{ .source = @intFromPtr(&bytes), .destination = memory, .size = bytes.len }};
    var list = ferry.ferry_piece_list{};
    ferry.ferry_piece_list_set(&list, &pieces, pieces.len);
    try expect(ferry.ferry_copy_pieces_async(f, &list, &.{ .tag = 10 }, null, &ticket, null) == 0);
    info = try info_of(ticket);
    try expect(info.tag == 10 and info.bytes_total == bytes.len);
    list.stride = 12;
    var refused = ferry.ferry_error_info{};
    try expect(ferry.ferry_copy_pieces(f, &list, null, &refused) == ferry.FERRY_ERROR_ALIGNMENT);
    try expect(refused.side == ferry.FERRY_SIDE_PIECES and refused.field == ferry.FERRY_FIELD_STRIDE);
    var fill = ferry.ferry_fill_desc{ .destination = copy.destination, .width = bytes.len, .pattern_size = 1 };
    try expect(ferry.ferry_fill_async(f, &fill, &.{ .tag = 9 }, null, &ticket, null) == 0);
    info = try info_of(ticket);
    try expect(info.tag == 9 and info.bytes_total == bytes.len);
}

test "a call names the field of the options that it refuses" {
    const f = try open();
    defer ferry.ferry_close(f);
    const cases = [_]struct { ferry.ferry_copy_options, i32, i32 }{
        .{ .{ .route = 99 }, ferry.FERRY_ERROR_INVALID_ARGUMENT, ferry.FERRY_FIELD_ROUTE },
        .{ .{ .priority = ferry.FERRY_PRIORITY_BACKGROUND }, ferry.FERRY_ERROR_UNSUPPORTED, ferry.FERRY_FIELD_PRIORITY },
        .{ .{ .source_order = 3 }, ferry.FERRY_ERROR_INVALID_ARGUMENT, ferry.FERRY_FIELD_SOURCE_ORDER },
        .{ .{ .flags = 1 << 20 }, ferry.FERRY_ERROR_FLAGS, ferry.FERRY_FIELD_FLAGS },
        .{ .{ .max_sms = 1 << 16 }, ferry.FERRY_ERROR_INVALID_ARGUMENT, ferry.FERRY_FIELD_MAX_SMS },
    };
    for (cases) |case| {
        const options, const status, const field = case;
        const copy = ferry.ferry_copy_desc{};
        var info = ferry.ferry_error_info{};
        try expect(ferry.ferry_copy(f, &copy, &options, &info) == status);
        try expect(info.side == ferry.FERRY_SIDE_OPTIONS and info.field == field);
    }
}

const Geometry = struct { pitch: u64, height: u64 = 1, x: u64 = 0, y: u64 = 0, z: u64 = 0 };

fn at(g: Geometry, x: u64, y: u64, z: u64) usize {
    return ((g.z + z) * g.height + g.y + y) * g.pitch + g.x + x;
}

fn place(kind: i32, address: u64, g: Geometry) ferry.ferry_place {
    return .{
        .kind = kind,
        .address = address,
        .device = 0,
        .row_pitch = g.pitch,
        .slice_height = g.height,
        .x = g.x,
        .y = g.y,
        .z = g.z,
    };
}

test "boxes go to the device and back, and change nothing around them" {
    const f = try open();
    defer ferry.ferry_close(f);
    const size = 4096;
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, size, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    var stream: ?*ferry.CUstream_st = null;
    try expect(ferry.ferry_stream_create(f, 0, ferry.FERRY_STREAM_NON_BLOCKING, 0, &stream, null) == 0);
    defer _ = ferry.ferry_stream_destroy(f, stream, null);
    const shapes = [_]struct { [3]u64, Geometry, Geometry }{
        .{ .{ 77, 1, 1 }, .{ .pitch = 100, .x = 3 }, .{ .pitch = 80, .x = 1 } },
        .{ .{ 30, 7, 1 }, .{ .pitch = 64, .height = 9, .x = 3, .y = 2 }, .{ .pitch = 41, .height = 12, .x = 11, .y = 4 } },
        .{
            .{ 10, 3, 2 },
            .{ .pitch = 32, .height = 5, .x = 8, .y = 1, .z = 1 },
            .{ .pitch = 21, .height = 6, .x = 11, .y = 3, .z = 1 },
        },
    };
    for (shapes) |shape| {
        const extent, const source, const destination = shape;
        var sent: [size]u8 = undefined;
        for (&sent, 0..) |*byte, i| byte.* = @truncate(i * 31 + i / 256);
        var received: [size]u8 = @splat(0xee);
        var expected = received;
        for (0..extent[2]) |z| for (0..extent[1]) |y| for (0..extent[0]) |x| {
            expected[at(destination, x, y, z)] = sent[at(source, x, y, z)];
        };
        const between = place(ferry.FERRY_KIND_DEVICE, memory, source);
        const copies = [_]ferry.ferry_copy_desc{
            .{
                .source = place(ferry.FERRY_KIND_HOST, @intFromPtr(&sent), source),
                .destination = between,
                .width = extent[0],
                .height = extent[1],
                .depth = extent[2],
            },
            .{
                .source = between,
                .destination = place(ferry.FERRY_KIND_HOST, @intFromPtr(&received), destination),
                .width = extent[0],
                .height = extent[1],
                .depth = extent[2],
            },
        };
        for (copies) |copy| try expect(ferry.ferry_copy(f, &copy, null, null) == 0);
        try std.testing.expectEqualSlices(u8, &expected, &received);
        received = @splat(0xee);
        for (copies) |copy| try expect(ferry.ferry_copy_async(f, &copy, null, stream, null, null) == 0);
        try expect(ferry.ferry_stream_synchronize(f, stream, null) == 0);
        try std.testing.expectEqualSlices(u8, &expected, &received);
    }
}

test "a default stream is a pointer that is not dereferenced" {
    const f = try open();
    defer ferry.ferry_close(f);
    const legacy: *ferry.CUstream_st = @ptrFromInt(ferry.FERRY_DEFAULT_STREAM_LEGACY);
    try expect(ferry.ferry_stream_synchronize(f, legacy, null) == 0);
    try expect(ferry.ferry_stream_synchronize(f, null, null) == 0);
}

extern fn mkstemp(path: [*:0]u8) c_int;
extern fn unlink(path: [*:0]const u8) c_int;

/// A file that the test removes.
const TestFile = struct {
    path: [22:0]u8,
    own: std.Io.File,

    fn init(contents: []const u8) !TestFile {
        var path = "/tmp/ferry-zig-XXXXXXX".*;
        const handle = mkstemp(&path);
        try expect(handle >= 0);
        const own = std.Io.File{ .handle = handle, .flags = .{ .nonblocking = false } };
        try own.writePositionalAll(std.testing.io, contents, 0);
        return .{ .path = path, .own = own };
    }

    fn deinit(file: *const TestFile) void {
        file.own.close(std.testing.io);
        _ = unlink(&file.path);
    }

    fn expectContents(file: *const TestFile, comptime size: usize, expected: *const [size]u8) !void {
        var found: [size + 1]u8 = undefined;
        try expect(try file.own.readPositionalAll(std.testing.io, &found, 0) == size);
        try std.testing.expectEqualSlices(u8, expected, found[0..size]);
    }
};

fn open_file(f: *ferry.ferry_instance, path: [*:0]const u8, flags: u32) !*ferry.ferry_file {
    var file: ?*ferry.ferry_file = null;
    try expect(ferry.ferry_file_open(f, path, &.{ .flags = flags }, &file, null) == 0);
    return file.?;
}

fn noise(comptime size: usize, seed: usize) [size]u8 {
    var bytes: [size]u8 = undefined;
    for (&bytes, 0..) |*byte, i| byte.* = @truncate(i * 31 + i / 256 + seed);
    return bytes;
}

test "a box goes to a file and back, and changes nothing around it" {
    const f = try open();
    defer ferry.ferry_close(f);
    const size = 4096;
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, 2 * size, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    const sent = noise(size, 0);
    const before = noise(4 * size, 100);
    for ([_]bool{ false, true }) |is_async| {
        const there = try TestFile.init(&before);
        defer there.deinit();
        const file = try open_file(f, &there.path, ferry.FERRY_FILE_READ | ferry.FERRY_FILE_WRITE);
        defer ferry.ferry_file_close(file);
        var received: [size]u8 = @splat(0xee);
        try expect(ferry.ferry_copy_bytes(f, memory, @intFromPtr(&sent), size, null, null) == 0);
        try expect(ferry.ferry_copy_bytes(f, memory + size, @intFromPtr(&received), size, null, null) == 0);
        const here = Geometry{ .pitch = 64, .height = 9, .x = 3, .y = 2, .z = 1 };
        const inside = Geometry{ .pitch = 500, .height = 8, .x = 7, .y = 1, .z = 1 };
        var box: ferry.ferry_place = undefined;
        ferry.ferry_place_file_pitched(&box, file, 1000, inside.pitch, inside.height);
        box.x = inside.x;
        box.y = inside.y;
        box.z = inside.z;
        const copies = [_]ferry.ferry_copy_desc{
            .{
                .source = place(ferry.FERRY_KIND_DEVICE, memory, here),
                .destination = box,
                .width = 30,
                .height = 5,
                .depth = 2,
            },
            .{
                .source = box,
                .destination = place(ferry.FERRY_KIND_DEVICE, memory + size, here),
                .width = 30,
                .height = 5,
                .depth = 2,
            },
        };
        for (copies) |copy| {
            if (is_async) {
                var ticket: ?*ferry.ferry_ticket = null;
                try expect(ferry.ferry_copy_async(f, &copy, null, null, &ticket, null) == 0);
                const info = try info_of(ticket);
                try expect(info.bytes_done == 30 * 5 * 2 and info.file_error == 0 and info.file_offset == 0);
            } else {
                try expect(ferry.ferry_copy(f, &copy, null, null) == 0);
            }
        }
        var expected = received;
        var expected_file = before;
        for (0..2) |z| for (0..5) |y| for (0..30) |x| {
            const byte = sent[at(here, x, y, z)];
            expected[at(here, x, y, z)] = byte;
            expected_file[1000 + at(inside, x, y, z)] = byte;
        };
        try expect(ferry.ferry_copy_bytes(f, @intFromPtr(&received), memory + size, size, null, null) == 0);
        try std.testing.expectEqualSlices(u8, &expected, &received);
        try there.expectContents(4 * size, &expected_file);
    }
}

test "pieces of a file are one copy" {
    const f = try open();
    defer ferry.ferry_close(f);
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, 4096, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    const contents = noise(10000, 1);
    const there = try TestFile.init(&contents);
    defer there.deinit();
    const file = try open_file(f, &there.path, 0);
    defer ferry.ferry_file_close(file);
    const pieces = [_]ferry.ferry_piece{
        .{ .source = 9999, .destination = memory, .size = 1 },
        .{ .source = 0, .destination = memory + 1000, .size = 700 },
        .{ .source = 700, .destination = memory + 10, .size = 33 },
        .{ .source = 5000, .destination = memory + 2000, .size = 2096 },
    };
    var list = ferry.ferry_piece_list{};
    ferry.ferry_piece_list_set(&list, &pieces, pieces.len);
    list.source_file = file;
    for ([_]bool{ false, true }) |is_async| {
        var received: [4096]u8 = @splat(0xee);
        var expected = received;
        try expect(ferry.ferry_copy_bytes(f, memory, @intFromPtr(&received), received.len, null, null) == 0);
        if (is_async) {
            var ticket: ?*ferry.ferry_ticket = null;
            try expect(ferry.ferry_copy_pieces_async(f, &list, null, null, &ticket, null) == 0);
            const info = try info_of(ticket);
            try expect(info.bytes_done == 1 + 700 + 33 + 2096);
        } else {
            try expect(ferry.ferry_copy_pieces(f, &list, null, null) == 0);
        }
        for (pieces) |piece| {
            @memcpy(expected[piece.destination - memory ..][0..piece.size], contents[piece.source..][0..piece.size]);
        }
        try expect(ferry.ferry_copy_bytes(f, @intFromPtr(&received), memory, received.len, null, null) == 0);
        try std.testing.expectEqualSlices(u8, &expected, &received);
    }
}

test "a file of std may be closed after ferry has opened it" {
    const f = try open();
    defer ferry.ferry_close(f);
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, 100, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    const contents = noise(1000, 2);
    var file: ?*ferry.ferry_file = null;
    {
        const there = try TestFile.init(&contents);
        defer there.deinit();
        try expect(ferry.ferry_file_open_descriptor(f, there.own.handle, null, &file, null) == 0);
    }
    defer ferry.ferry_file_close(file.?);
    var info = ferry.ferry_file_info{};
    try expect(ferry.ferry_file_get_info(file.?, &info, null) == 0);
    try expect(info.size == 1000 and info.flags == ferry.FERRY_FILE_READ | ferry.FERRY_FILE_WRITE);
    var copy = ferry.ferry_copy_desc{ .width = 100 };
    ferry.ferry_place_file(&copy.source, file, 3);
    ferry.ferry_place_device(&copy.destination, 0, memory);
    try expect(ferry.ferry_copy(f, &copy, null, null) == 0);
    var received: [100]u8 = undefined;
    try expect(ferry.ferry_copy_bytes(f, @intFromPtr(&received), memory, received.len, null, null) == 0);
    try std.testing.expectEqualSlices(u8, contents[3..103], &received);
}

// The size of every file in sysfs is 4096 bytes, but this file ends earlier.
test "a file that ends early fails its ticket and its copy" {
    const f = try open();
    defer ferry.ferry_close(f);
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, 100, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    const path = "/sys/devices/system/cpu/online";
    var contents: [4096]u8 = undefined;
    const end = (try std.Io.Dir.cwd().readFile(std.testing.io, path, &contents)).len;
    const file = try open_file(f, path, ferry.FERRY_FILE_READ);
    defer ferry.ferry_file_close(file);
    var copy = ferry.ferry_copy_desc{ .width = 100 };
    ferry.ferry_place_file(&copy.source, file, 1);
    ferry.ferry_place_device(&copy.destination, 0, memory);
    var info = ferry.ferry_error_info{};
    try expect(ferry.ferry_copy(f, &copy, null, &info) == ferry.FERRY_ERROR_FILE);
    try expect(@as(i64, @bitCast(info.value)) == ferry.FERRY_FILE_ENDED and info.limit == end);
    try expect(info.numbers == ferry.FERRY_NUMBERS_SYSTEM);
    var ticket: ?*ferry.ferry_ticket = null;
    try expect(ferry.ferry_copy_async(f, &copy, null, null, &ticket, &info) == 0);
    defer _ = ferry.ferry_ticket_release(ticket.?, null);
    try expect(ferry.ferry_ticket_wait(ticket.?, ferry.FERRY_NO_TIMEOUT, &info) == ferry.FERRY_ERROR_FILE);
    var found = ferry.ferry_ticket_info{};
    try expect(ferry.ferry_ticket_get_info(ticket.?, &found, null) == 0);
    try expect(found.status == ferry.FERRY_ERROR_FILE and found.file_error == ferry.FERRY_FILE_ENDED);
    try expect(found.file_offset == end);
}

test "what cannot be opened or copied is named" {
    const f = try open();
    defer ferry.ferry_close(f);
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, 100, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    var file: ?*ferry.ferry_file = null;
    var info = ferry.ferry_error_info{};
    try expect(ferry.ferry_file_open(f, "/nonexistent/ferry", null, &file, &info) == ferry.FERRY_ERROR_FILE);
    try expect(info.field == ferry.FERRY_FIELD_PATH and info.value == 2 and file == null); // ENOENT
    try expect(ferry.ferry_file_open(f, "/tmp", null, &file, &info) == ferry.FERRY_ERROR_HANDLE);
    try expect(info.field == ferry.FERRY_FIELD_PATH);
    const there = try TestFile.init(&noise(1000, 3));
    defer there.deinit();
    const truncate = ferry.ferry_file_options{ .flags = ferry.FERRY_FILE_TRUNCATE }; // without WRITE
    try expect(ferry.ferry_file_open(f, &there.path, &truncate, &file, &info) == ferry.FERRY_ERROR_FLAGS);
    try expect(info.side == ferry.FERRY_SIDE_OPTIONS and info.field == ferry.FERRY_FIELD_FLAGS);
    file = try open_file(f, &there.path, 0);
    defer ferry.ferry_file_close(file);
    var copy = ferry.ferry_copy_desc{ .width = 100 };
    ferry.ferry_place_file(&copy.source, file, 901);
    ferry.ferry_place_device(&copy.destination, 0, memory);
    try expect(ferry.ferry_copy(f, &copy, null, &info) == ferry.FERRY_ERROR_OUT_OF_BOUNDS);
    try expect(info.side == ferry.FERRY_SIDE_SOURCE and info.field == ferry.FERRY_FIELD_OFFSET);
    try expect(info.value == 1001 and info.limit == 1000);
    copy.source.address = 0;
    try expect(ferry.ferry_copy_async(f, &copy, null, null, null, &info) == ferry.FERRY_ERROR_INVALID_ARGUMENT);
    try expect(info.field == ferry.FERRY_FIELD_TICKET);
    std.mem.swap(ferry.ferry_place, &copy.source, &copy.destination);
    try expect(ferry.ferry_copy(f, &copy, null, &info) == ferry.FERRY_ERROR_HANDLE);
    try expect(info.side == ferry.FERRY_SIDE_DESTINATION and info.field == ferry.FERRY_FIELD_FILE);
}

extern fn calloc(count: usize, size: usize) ?[*]u8;
extern fn free(memory: ?[*]u8) void;

// Only the largest copy is made whole. What is never written takes no memory.
test "sizes above 32 bits arrive or are refused" {
    const largest: u64 = (1 << 32) + 5;
    const settings = ferry.ferry_software_options{ .memory = 5 << 30 };
    const options = ferry.ferry_options{ .driver = ferry.FERRY_DRIVER_SOFTWARE, .driver_options = &settings };
    var opened: ?*ferry.ferry_instance = null;
    try expect(ferry.ferry_open(&options, &opened, null) == 0);
    const f = opened.?;
    defer ferry.ferry_close(f);
    var memory: u64 = 0;
    try expect(ferry.ferry_device_alloc(f, 0, largest, &memory, null) == 0);
    defer _ = ferry.ferry_device_free(f, memory, null);
    const host = calloc(largest, 1).?;
    defer free(host);
    const address: u64 = @intFromPtr(host);
    const first = [8]u8{ 1, 2, 3, 4, 5, 6, 7, 8 };
    const last = [8]u8{ 11, 12, 13, 14, 15, 16, 17, 18 };
    var got: [8]u8 = undefined;
    var info = ferry.ferry_error_info{};
    for ([_]u64{ (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1, 1 << 32, largest }) |size| {
        var explanation = ferry.ferry_explanation{};
        var copy = ferry.ferry_copy_desc{ .width = size };
        copy.source = .{ .kind = ferry.FERRY_KIND_HOST, .address = address };
        copy.destination = .{ .kind = ferry.FERRY_KIND_DEVICE, .address = memory };
        try expect(ferry.ferry_copy_explain(f, &copy, null, &explanation, &info) == 0);
        copy.destination.address += largest - size + 1;
        try expect(ferry.ferry_copy(f, &copy, null, &info) != 0);
        try expect(ferry.ferry_copy_bytes(f, memory + size - 8, @intFromPtr(&first), 8, null, &info) == 0);
        try expect(ferry.ferry_copy_bytes(f, @intFromPtr(&got), memory + size - 8, 8, null, &info) == 0);
        try std.testing.expectEqualSlices(u8, &first, &got);
        const pitch = size / 2;
        if (pitch > std.math.maxInt(i32)) continue;
        @memcpy(host[2 * pitch - 8 .. 2 * pitch], &last); // the last bytes of two rows
        copy.width = 8;
        copy.height = 2;
        copy.destination.address = memory;
        for ([_]*ferry.ferry_place{ &copy.source, &copy.destination }) |end| {
            end.row_pitch = pitch;
            end.x = pitch - 8;
        }
        try expect(ferry.ferry_copy(f, &copy, null, &info) == 0);
        try expect(ferry.ferry_copy_bytes(f, @intFromPtr(&got), memory + 2 * pitch - 8, 8, null, &info) == 0);
        try std.testing.expectEqualSlices(u8, &last, &got);
    }
    @memcpy(host[0..8], &first);
    @memcpy(host[largest - 8 .. largest], &last);
    const by_driver = ferry.ferry_copy_options{ .route = ferry.FERRY_ROUTE_DRIVER };
    var copy = ferry.ferry_copy_desc{ .width = largest };
    copy.source = .{ .kind = ferry.FERRY_KIND_HOST, .address = address };
    copy.destination = .{ .kind = ferry.FERRY_KIND_DEVICE, .address = memory };
    try expect(ferry.ferry_copy(f, &copy, &by_driver, &info) == 0);
    for ([_]u64{ 0, largest - 8 }, [_][8]u8{ first, last }) |offset, wanted| {
        try expect(ferry.ferry_copy_bytes(f, @intFromPtr(&got), memory + offset, 8, null, &info) == 0);
        try std.testing.expectEqualSlices(u8, &wanted, &got);
    }
    for ([_]u64{ std.math.maxInt(i64), std.math.maxInt(u64) }) |size| {
        var none: u64 = 0;
        try expect(ferry.ferry_device_alloc(f, 0, size, &none, &info) != 0 and none == 0);
        copy.width = size;
        try expect(ferry.ferry_copy(f, &copy, null, &info) != 0);
    }
    try expect(info.status == ferry.FERRY_ERROR_OVERFLOW); // the end of so many bytes has no address
    try expect(info.side == ferry.FERRY_SIDE_EXTENT and info.field == ferry.FERRY_FIELD_WIDTH);
}
