//! An upload, a box of an image, a batch and a frame loop. The module `ferry` is ferry.zig.
const std = @import("std");
const ferry = @import("ferry");

/// Returns an error for a status other than 0, and prints the details.
fn check(status: i32, info: ?*ferry.ferry_error_info) !void {
    if (status == 0) return;
    var unknown = ferry.ferry_error_info{};
    const failure = info orelse &unknown; // calls without an error parameter return only a status
    failure.status = status;
    var line: [256]u8 = undefined;
    _ = ferry.ferry_error_format(failure, &line, line.len);
    std.debug.print("{s}\n", .{std.mem.sliceTo(&line, 0)});
    return error.Ferry;
}

pub fn main() !void {
    var info = ferry.ferry_error_info{};
    const options = ferry.ferry_options{ .driver = ferry.FERRY_DRIVER_AUTO };
    var instance: ?*ferry.ferry_instance = null;
    try check(ferry.ferry_open(&options, &instance, &info), &info);
    const f = instance.?;
    defer ferry.ferry_close(f);
    var stream: ?*ferry.CUstream_st = null;
    try check(ferry.ferry_stream_create(f, 0, ferry.FERRY_STREAM_NON_BLOCKING, 0, &stream, &info), &info);
    defer _ = ferry.ferry_stream_destroy(f, stream);
    var memory: u64 = 0;
    try check(ferry.ferry_device_alloc(f, 0, 4000, &memory, &info), &info);
    defer _ = ferry.ferry_device_free(f, memory);

    // Upload: bytes to the device and back, by calls that wait.
    const sent: [1000]f32 = @splat(1.5);
    var received: [1000]f32 = @splat(0);
    try check(ferry.ferry_copy_bytes(f, memory, @intFromPtr(&sent), 4000, &info), &info);
    try check(ferry.ferry_copy_bytes(f, @intFromPtr(&received), memory, 4000, &info), &info);
    if (received[999] != 1.5) return error.Upload;

    // Box: 64 by 32 texels of an image into a box of an array, and back. x, width and row_pitch are bytes.
    var image: [480][640]u32 = @splat(@splat(0));
    image[50][100] = 42;
    const shape = ferry.ferry_array_desc{ .format = ferry.FERRY_FORMAT_UINT32, .channels = 1, .width = 256, .height = 256 };
    var array: ?*ferry.CUarray_st = null;
    try check(ferry.ferry_array_create(f, 0, &shape, &array, &info), &info);
    defer _ = ferry.ferry_array_destroy(f, array);
    const box = ferry.ferry_place{ .kind = ferry.FERRY_KIND_ARRAY, .array = array, .x = 16 * 4, .y = 8 };
    var texel: u32 = 0;
    const copies = [_]ferry.ferry_copy_desc{
        .{
            .source = .{
                .kind = ferry.FERRY_KIND_HOST,
                .address = @intFromPtr(&image),
                .row_pitch = 640 * 4,
                .x = 100 * 4,
                .y = 50,
            },
            .destination = box,
            .width = 64 * 4,
            .height = 32,
        },
        .{ .source = box, .destination = .{ .kind = ferry.FERRY_KIND_HOST, .address = @intFromPtr(&texel) }, .width = 4 },
    };
    for (copies) |copy| try check(ferry.ferry_copy(f, &copy, &info), &info);
    if (texel != 42) return error.Box;

    // Batch: many pieces in one call, from pinned memory.
    var block = ferry.ferry_host_block{};
    try check(ferry.ferry_host_alloc(f, 4000, null, &block, &info), &info);
    defer _ = ferry.ferry_host_free(f, block.address);
    const pinned = @as([*]u32, @ptrCast(@alignCast(block.address)))[0..1000];
    var to: [1000]u64 = undefined;
    var from: [1000]u64 = undefined;
    const sizes: [1000]u64 = @splat(4);
    for (pinned, &to, &from, 0..) |*number, *t, *s, i| {
        number.* = @intCast(i);
        s.* = @intFromPtr(number);
        t.* = memory + 4 * (999 - i);
    }
    try check(ferry.ferry_copy_pieces_async(f, &to, &from, &sizes, 1000, 0, stream, &info), &info);

    // Frame loop: each frame uses the pinned memory, which is written again only after the copy has completed.
    for (0..60) |frame| {
        try check(ferry.ferry_stream_synchronize(f, stream), null);
        @memset(pinned, @intCast(frame));
        const copy = ferry.ferry_copy_desc{
            .source = .{ .kind = ferry.FERRY_KIND_HOST, .address = @intFromPtr(block.address) },
            .destination = box,
            .width = 25 * 4,
            .height = 40,
        };
        try check(ferry.ferry_copy_async(f, &copy, stream, null, &info), &info);
    }
    try check(ferry.ferry_stream_synchronize(f, stream), null);
    try check(ferry.ferry_copy(f, &copies[1], &info), &info);
    if (texel != 59) return error.FrameLoop;
    std.debug.print("upload, box, batch and frame loop arrived\n", .{});
}
