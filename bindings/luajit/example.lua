-- An upload, a box of an image, a batch and a frame loop: luajit example.lua LIBRARY HEADER
local ffi = require "ffi"
local ferry = require("ferry").load(arg[1], arg[2])
local C = ferry.C

local f = ferry.open { driver = C.FERRY_DRIVER_AUTO } -- the software driver if there is no GPU
local stream = f:stream_create(0)

-- Upload: memory of LuaJIT to the device and back, by calls that wait.
local sent, received = ffi.new("float[1000]"), ffi.new("float[1000]")
sent[999] = 1.5
local memory = f:device_alloc(0, 4000)
f:copy { to = memory, from = sent, width = 4000 }
f:copy { to = received, from = memory, width = 4000 }
assert(received[999] == 1.5)

-- Box: 64 by 32 texels of an image into a box of an array. x, width and row_pitch are bytes.
local image, back = ffi.new("uint32_t[480][640]"), ffi.new("uint32_t[32][64]")
image[50][100] = 42
local texture = f:array_create(0, { format = C.FERRY_FORMAT_UINT32, channels = 1, width = 256, height = 256 })
local box = ferry.place(texture, { x = 16 * 4, y = 8 })
local part = ferry.place(image, { x = 100 * 4, y = 50, row_pitch = 640 * 4 })
f:copy { to = box, from = part, width = 64 * 4, height = 32 }
f:copy { to = back, from = box, width = 64 * 4, height = 32 }
assert(back[0][0] == 42)

-- Batch: many copies in one call. A bad one is named.
local pinned, copies = f:host_alloc(4000), {}
ffi.fill(pinned.pointer, 4000, 7)
for i = 0, 99 do
    copies[i + 1] = { to = ferry.place(memory, { offset = 40 * (99 - i) }),
        from = ferry.place(pinned, { offset = 40 * i }), width = 40 }
end
stream:copy_batch(copies)
copies[100].width = 4000
local ok, failure = pcall(stream.copy_batch, stream, copies)
assert(not ok and failure.index == 99 and failure.status == C.FERRY_ERROR_OUT_OF_BOUNDS, tostring(failure))

-- Frame loop: each frame uploads a buffer that Lua may collect immediately: the stream keeps the buffer until the copy
-- is complete.
for frame = 1, 60 do
    local pixels = ffi.new("uint32_t[?]", 256 * 256)
    for i = 0, 256 * 256 - 1 do pixels[i] = frame end
    stream:copy { to = texture, from = pixels, width = 256 * 4, height = 256 }
    if frame % 2 == 0 then stream:synchronize() end -- the display's pace
end
f:copy { to = back, from = box, width = 64 * 4, height = 32 }
assert(back[31][63] == 60)

for _, object in ipairs { memory, texture, pinned, stream } do object:free() end
f:close()
print("upload, box, batch and frame loop arrived")
