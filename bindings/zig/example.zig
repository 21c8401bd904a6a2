//! An upload, a box of an image, a batch and a frame loop. The module `ferry` is ferry.zig.
const std = @import("std");
const ferry = @import("ferry");

/// Calls a function with an error info as its last argument. Returns an error unless the status is 0, and prints the
/// details.
fn call(function: anytype, arguments: anytype) !void {
    var info = ferry.ferry_error_info{};
    if (@call(.auto, function, arguments ++ .{&info}) == 0) return;
    var line: [256]u8 = undefined;
    _ = ferry.ferry_error_format(&info, &line, line.len);
    std.debug.print("{s}\n", .{std.mem.sliceTo(&line, 0)});
    return error.Ferry;
}

pub fn main() !void {
    const options = ferry.ferry_options{ .driver = ferry.FERRY_DRIVER_AUTO };
    var instance: ?*ferry.ferry_instance = null;
    try call(ferry.ferry_open, .{ &options, &instance });
    const f = instance.?;
    defer ferry.ferry_close(f);
    var stream: ?*ferry.CUstream_st = null;
    try call(ferry.ferry_stream_create, .{ f, 0, ferry.FERRY_STREAM_NON_BLOCKING, 0, &stream });
    defer _ = ferry.ferry_stream_destroy(f, stream, null);
    var memory: u64 = 0;
    try call(ferry.ferry_device_alloc, .{ f, 0, 4000, &memory });
    defer _ = ferry.ferry_device_free(f, memory, null);

    // Upload: bytes to the device and back, by calls that wait.
    const sent: [1000]f32 = @splat(1.5);
    var received: [1000]f32 = @splat(0);
    try call(ferry.ferry_copy_bytes, .{ f, memory, @intFromPtr(&sent), 4000, null });
    try call(ferry.ferry_copy_bytes, .{ f, @intFromPtr(&received), memory, 4000, null });
    if (received[999] != 1.5) return error.Upload;

    // Box: 64 by 32 texels of an image into a box of an array, and back. x, width and row_pitch are bytes.
    var image: [480][640]u32 = @splat(@splat(0));
    image[50][100] = 42;
    const shape = ferry.ferry_array_desc{ .format = ferry.FERRY_FORMAT_UINT32, .channels = 1, .width = 256, .height = 256 };
    var array: ?*ferry.CUarray_st = null;
    try call(ferry.ferry_array_create, .{ f, 0, &shape, &array });
    defer _ = ferry.ferry_array_destroy(f, array, null);
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
    for (copies) |copy| try call(ferry.ferry_copy, .{ f, &copy, null });
    if (texel != 42) return error.Box;

    // Batch: many pieces in one call, from pinned memory.
    var block = ferry.ferry_host_block{};
    try call(ferry.ferry_host_alloc, .{ f, 4000, null, &block });
    defer _ = ferry.ferry_host_free(f, block.address, null);
    const pinned = @as([*]u32, @ptrCast(@alignCast(block.address)))[0..1000];
    var pieces: [1000]ferry.ferry_piece = undefined;
    for (pinned, &pieces, 0..) |*number, *piece, i| {
        number.* = @intCast(i);
        piece.* = .{ .source = @intFromPtr(number), .destination = memory + 4 * (999 - i), .size = 4 };
    }
    var list = ferry.ferry_piece_list{};
    ferry.ferry_piece_list_set(&list, &pieces, pieces.len);
    try call(ferry.ferry_copy_pieces_async, .{ f, &list, null, stream, null });

    // Frame loop: each frame uses the pinned memory, which is written again only after the copy has completed.
    const urgent = ferry.ferry_copy_options{ .priority = ferry.FERRY_PRIORITY_URGENT };
    for (0..60) |frame| {
        try call(ferry.ferry_stream_synchronize, .{ f, stream });
        @memset(pinned, @intCast(frame));
        const copy = ferry.ferry_copy_desc{
            .source = .{ .kind = ferry.FERRY_KIND_HOST, .address = @intFromPtr(block.address) },
            .destination = box,
            .width = 25 * 4,
            .height = 40,
        };
        try call(ferry.ferry_copy_async, .{ f, &copy, &urgent, stream, null });
    }
    try call(ferry.ferry_stream_synchronize, .{ f, stream });
    try call(ferry.ferry_copy, .{ f, &copies[1], null });
    if (texel != 59) return error.FrameLoop;
    std.debug.print("upload, box, batch and frame loop arrived\n", .{});
}
