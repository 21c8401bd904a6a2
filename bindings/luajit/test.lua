-- Tests of ferry.lua on the software driver: luajit test.lua LIBRARY HEADER DESCRIPTION
local ffi = require "ffi"
local ferry = require("ferry").load(arg[1], arg[2])
local C = ferry.C
local tests, names = {}, {}
local function test(name, body) tests[name], names[#names + 1] = body, name end

local function open() return ferry.open { driver = C.FERRY_DRIVER_SOFTWARE, software_devices = 2 } end

local function fails_with(status, call, ...)
    local ok, failure = pcall(call, ...)
    assert(not ok, "did not fail")
    assert(type(failure) == "table" and failure.status == status, tostring(failure))
    return failure
end

test("every function and constant of the description is there", function()
    local file = assert(io.open(arg[3]))
    local text = file:read("*a")
    file:close()
    local constants, functions = 0, 0
    for name, value in text:gmatch('"name": "(FERRY_[%w_]+)",%s*"value": (-?%d+)') do
        assert(C[name] == tonumber(value), name)
        constants = constants + 1
    end
    for name in text:match('"functions": %[.*'):gmatch('"name": "(ferry_[%w_]+)",%s*"returns"') do
        assert(C[name] ~= nil, name)
        functions = functions + 1
    end
    assert(constants > 250 and functions > 140, "found too few")
end)

test("an error has side, field, value, limit and a line", function()
    local f = open()
    local memory, buffer = f:device_alloc(0, 100), ffi.new("char[100]")
    local copy = { to = ferry.place(memory, { row_pitch = 4 }), from = buffer, width = 8, height = 2 }
    local failure = fails_with(C.FERRY_ERROR_PITCH, f.copy, f, copy)
    assert(failure.side == C.FERRY_SIDE_DESTINATION and failure.field == C.FERRY_FIELD_ROW_PITCH)
    assert(failure.value == 4 and failure.limit == 8)
    assert(tostring(failure) == "destination.row_pitch: 4, must be at least 8 (FERRY_ERROR_PITCH)")
    failure = fails_with(C.FERRY_ERROR_PITCH, f.copy_batch, f, { { to = memory, from = buffer, width = 8 }, copy })
    assert(failure.index == 1)
    fails_with(C.FERRY_ERROR_DEVICE, f.device_alloc, f, 7, 100)
end)

-- Memories of slices, with the rows and slices of a box inside.
local function at(pitch, height, x, y, z) return { row_pitch = pitch, slice_height = height, x = x, y = y, z = z } end
local shapes = {
    { "1D", at(100, 1, 3, 0, 0), at(80, 1, 1, 0, 0), 77, 1, 1, 1 },
    { "2D", at(64, 9, 3, 2, 0), at(41, 12, 11, 4, 0), 30, 7, 1, 1 },
    { "3D", at(32, 5, 8, 1, 1), at(21, 6, 11, 3, 1), 10, 3, 2, 3 },
}
local kinds = {
    ffi = function(_, size) return ffi.new("uint8_t[?]", size) end,
    pinned = function(f, size) return f:host_alloc(size) end,
    device = function(f, size) return f:device_alloc(0, size) end,
    array = function(f, _, place, slices)
        return f:array_create(0, { format = C.FERRY_FORMAT_UINT8, channels = 1, width = place.row_pitch,
            height = place.slice_height, depth = slices > 1 and slices or 0 })
    end,
}

local function noise(size, seed)
    local bytes = ffi.new("uint8_t[?]", size)
    for i = 0, size - 1 do bytes[i] = (i * 31 + seed + math.floor(i / 256)) % 256 end
    return bytes
end

for _, shape in ipairs(shapes) do
    local name, source, destination, width, height, depth, slices = unpack(shape)
    for from_kind, make_source in pairs(kinds) do
        for to_kind, make_destination in pairs(kinds) do
            test(name .. " from " .. from_kind .. " to " .. to_kind, function()
                local f = open()
                local stream = f:stream_create(0)
                local function whole(memory, place)
                    return { width = place.row_pitch, height = place.slice_height, depth = slices }
                end
                local source_size = source.row_pitch * source.slice_height * slices
                local size = destination.row_pitch * destination.slice_height * slices
                local from = make_source(f, source_size, source, slices)
                local to = make_destination(f, size, destination, slices)
                local content, before = noise(source_size, 1), noise(size, 100)
                local expected = ffi.new("uint8_t[?]", size)
                ffi.copy(expected, before, size)
                for z = 0, depth - 1 do
                    for y = 0, height - 1 do
                        for x = 0, width - 1 do
                            local d, s = destination, source
                            expected[((d.z + z) * d.slice_height + d.y + y) * d.row_pitch + d.x + x] =
                                content[((s.z + z) * s.slice_height + s.y + y) * s.row_pitch + s.x + x]
                        end
                    end
                end
                local fill, reset, read = whole(from, source), whole(to, destination), whole(to, destination)
                local got = ffi.new("uint8_t[?]", size)
                fill.to, fill.from, reset.to, reset.from, read.to, read.from = from, content, to, before, got, to
                f:copy(fill)
                local copy = { to = ferry.place(to, destination), from = ferry.place(from, source), width = width,
                    height = height, depth = depth }
                for way, run in pairs { now = function() f:copy(copy) end, batch = function() f:copy_batch { copy } end,
                    stream = function() stream:copy(copy) stream:synchronize() end } do
                    f:copy(reset)
                    run()
                    f:copy(read)
                    for i = 0, size - 1 do assert(got[i] == expected[i], way .. ": wrong byte " .. i) end
                end
            end)
        end
    end
end

test("a stream keeps buffers alive that Lua would collect", function()
    local f = open()
    local stream, memory = f:stream_create(0), f:device_alloc(0, 64 * 65536)
    for i = 0, 63 do
        local buffer = ffi.new("uint8_t[65536]", i)
        ffi.fill(buffer, 65536, i)
        stream:copy { to = ferry.place(memory, { offset = i * 65536 }), from = buffer, width = 65536 }
        buffer = nil
        collectgarbage()
        for _ = 1, 4 do ffi.fill(ffi.new("uint8_t[65536]"), 65536, 255) end -- takes what was collected
    end
    stream:synchronize()
    local got = ffi.new("uint8_t[?]", 64 * 65536)
    f:copy { to = got, from = memory, width = 64 * 65536 }
    for i = 0, 64 * 65536 - 1, 4095 do assert(got[i] == math.floor(i / 65536)) end
end)

test("anchors are dropped while a stream runs on", function()
    local f = open()
    local stream, memory, pinned = f:stream_create(0), f:device_alloc(0, 16), f:host_alloc(16)
    for _ = 1, 20000 do stream:copy { to = memory, from = pinned, width = 16 } end
    ferry.check(C.ferry_stream_synchronize(f.c, stream.box[0]))
    stream:copy { to = memory, from = pinned, width = 16 }
    assert(#stream.anchors[1] < 20000)
end)

test("objects may be collected in any order, the instance too", function()
    for _ = 1, 20 do
        local f = open()
        local stream, memory = f:stream_create(0), f:device_alloc(0, 4096)
        stream:copy { to = memory, from = ffi.new("char[4096]"), width = 4096 }
        local state = f.state
        f, stream, memory = nil, nil, nil
        collectgarbage()
        collectgarbage()
        assert(state.users == 0)
    end
end)

test("free ends an object once, and close waits for the last one", function()
    local f = open()
    local memory = f:device_alloc(0, 4096)
    f:close()
    f:close()
    assert(f.state.users == 1)
    memory:free()
    memory:free()
    assert(f.state.users == 0)
end)

local passed, failed = 0, 0
for _, name in ipairs(names) do
    local ok, failure = xpcall(tests[name], function(failure) return debug.traceback(tostring(failure)) end)
    if ok then passed = passed + 1 else failed = failed + 1 end
    print((ok and "ok " or "FAILED ") .. name .. (ok and "" or ": " .. failure))
end
print(passed .. " passed, " .. failed .. " failed, 0 skipped")
os.exit(failed == 0, true) -- true: runs the finalizers
