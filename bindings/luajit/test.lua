-- Tests of ferry.lua on the software driver: luajit test.lua LIBRARY HEADER DESCRIPTION
local ffi = require "ffi"
local ferry = require("ferry").load(arg[1], arg[2])
local C = ferry.C
ffi.cdef "void *malloc(size_t); void *calloc(size_t, size_t); void free(void *);"
local tests, names = {}, {}
local function test(name, body) tests[name], names[#names + 1] = body, name end

-- The file FERRY_TEST_PROFILE makes copies on the software driver take the routes that they take on a GPU.
local profile = os.getenv("FERRY_TEST_PROFILE")
profile = profile and assert(io.open(profile)):read("*a")
local function open(copy_options)
    local f = ferry.open { driver = C.FERRY_DRIVER_SOFTWARE, copy_options = copy_options,
        driver_options = ferry.struct("ferry_software_options", { devices = 2 }) }
    if profile then assert(C.ferry_profile_load(f.c, profile, #profile, nil) == 0) end
    return f
end

local function fails_with(status, call, ...)
    local ok, failure = pcall(call, ...)
    assert(not ok, "did not fail")
    assert(type(failure) == "table" and failure.status == status, tostring(failure))
    return failure
end

local function noise(size, seed)
    local bytes = ffi.new("uint8_t[?]", size)
    for i = 0, size - 1 do bytes[i] = (i * 31 + seed + math.floor(i / 256)) % 256 end
    return bytes
end

-- The first test: the first instance decides how much memory a device has.
test("sizes above 32 bits", function()
    local largest = 2 ^ 32 + 5
    local f = ferry.open { driver = C.FERRY_DRIVER_SOFTWARE,
        driver_options = ferry.struct("ferry_software_options", { memory = 5 * 2 ^ 30 }) }
    local stream, memory = f:stream_create(0), f:device_alloc(0, largest)
    local host = ffi.gc(ffi.cast("uint8_t *", ffi.C.calloc(largest, 1)), ffi.C.free)
    assert(host ~= nil)
    local first, last, got = noise(8, 1), noise(8, 100), ffi.new("uint8_t[8]")
    local function expect(offset, wanted)
        f:copy { to = got, from = ferry.place(memory, { offset = offset }), width = 8 }
        assert(ffi.string(got, 8) == ffi.string(wanted, 8), "at " .. offset)
    end
    for _, size in ipairs { 2 ^ 31 - 1, 2 ^ 31, 2 ^ 31 + 1, 2 ^ 32 - 1, 2 ^ 32, largest } do
        local place = ferry.place(memory, { offset = largest - size + 1 })
        for _, width in ipairs { size, ffi.new("uint64_t", size) } do
            local failure = fails_with(C.FERRY_ERROR_OUT_OF_BOUNDS, f.copy, f, { to = place, from = host, width = width })
            assert(failure.value == size and failure.limit == size - 1)
        end
        f:copy { to = ferry.place(memory, { offset = size - 8 }), from = first, width = 8 }
        expect(size - 8, first)
        stream:copy { to = ferry.place(memory, { x = size - 8 }), from = last, width = 8 }
        stream:synchronize()
        expect(size - 8, last)
        local pitch = math.floor(size / 2)
        if pitch < 2 ^ 31 then -- the last bytes of two rows
            local corner = { row_pitch = pitch, x = pitch - 8 }
            ffi.copy(host + 2 * pitch - 8, first, 8)
            f:copy { to = ferry.place(memory, corner), from = ferry.place(host, corner), width = 8, height = 2 }
            expect(2 * pitch - 8, first)
        end
    end
    ffi.copy(host, first, 8)
    ffi.copy(host + largest - 8, last, 8)
    f:copy({ to = memory, from = host, width = largest }, { route = C.FERRY_ROUTE_DRIVER })
    expect(0, first)
    expect(largest - 8, last)
    assert(not pcall(f.device_alloc, f, 0, 2 ^ 53) and not pcall(f.host_alloc, f, 0xffffffffffffffffULL))
    stream:free()
    memory:free()
    f:close()
end)

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

test("pieces are an array of structs", function()
    local f = open()
    local memory, buffer, back = f:device_alloc(0, 64), ffi.new("char[64]"), ffi.new("char[64]")
    for i = 0, 63 do buffer[i] = i end
    local function address(pointer) return ffi.cast("uint64_t", ffi.cast("uintptr_t", pointer)) end
    local up, down = ffi.new("ferry_piece[4]"), ffi.new("ferry_piece[4]")
    for i = 0, 3 do
        up[i] = { source = address(buffer + 16 * i), destination = memory.address + 16 * (3 - i), size = 16 }
        down[i] = { source = memory.address + 16 * i, destination = address(back + 16 * i), size = 16 }
    end
    local list = ffi.new("ferry_piece_list")
    for _, pieces in ipairs { up, down } do
        C.ferry_piece_list_set(list, pieces, 4)
        ferry.check(C.ferry_copy_pieces(f.c, list, nil, ferry.details))
    end
    for i = 0, 63 do assert(back[i] == 16 * (3 - math.floor(i / 16)) + i % 16) end
    list.stride = 12
    local failure = fails_with(C.FERRY_ERROR_ALIGNMENT, function()
        ferry.check(C.ferry_copy_pieces(f.c, list, nil, ferry.details))
    end)
    assert(tostring(failure) == "pieces.stride: 12, must be a multiple of 8 (FERRY_ERROR_ALIGNMENT)")
    memory:free()
    f:close()
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

test("every call has the details of its error", function()
    local f = open()
    local stream, report = f:stream_create(0), ferry.struct("ferry_report")
    ferry.check(C.ferry_instance_get_report(f.c, report, ferry.details))
    local failure = fails_with(C.FERRY_ERROR_DEVICE, function()
        ferry.check(C.ferry_staging_prepare(f.c, 99, ferry.details))
    end)
    assert(failure.field == C.FERRY_FIELD_DEVICE and failure.value == 99 and failure.limit == report.device_count)
    failure = fails_with(C.FERRY_ERROR_PITCH, ferry.check, C.FERRY_ERROR_PITCH) -- and nothing of the error before
    assert(failure.field == C.FERRY_FIELD_NONE and failure.value == 0 and not failure.driver_function)
    local foreign = f:stream_create(0)
    ferry.check(C.ferry_stream_destroy(f.c, foreign.box[0], ferry.details))
    for _, call in ipairs { foreign.synchronize, foreign.free } do
        failure = fails_with(C.FERRY_STATUS_DRIVER_BASE - 400, call, foreign)
        assert(failure.driver_function:find("^cuStream"), tostring(failure))
    end
    stream:free()
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
    ferry.check(C.ferry_stream_synchronize(f.c, stream.box[0], ferry.details))
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

local function raises(text, call, ...)
    local ok, failure = pcall(call, ...)
    assert(not ok, "did not fail")
    assert(tostring(failure):find(text, 1, true), tostring(failure))
    return failure
end

test("a freed object cannot be used", function()
    local f = open()
    local stream, other, buffer = f:stream_create(0), f:device_alloc(0, 4096), ffi.new("char[16]", "untouched")
    f:copy { to = other, from = buffer, width = 16 }
    for kind, make in pairs(kinds) do
        if kind ~= "ffi" then
            local memory = make(f, 4096, at(64, 64, 0, 0, 0), 1)
            local place, copy = ferry.place(memory), { to = memory, from = ffi.new("char[16]", "x"), width = 16 }
            memory:free()
            local beside = make(f, 4096, at(64, 64, 0, 0, 0), 1) -- may be where the freed one was
            f:copy { to = beside, from = buffer, width = 16 }
            for _, to in ipairs { memory, place } do
                for _, from in ipairs { other, to } do
                    local copy = { to = to, from = from, width = 16 }
                    raises("the object was freed", f.copy, f, copy)
                    raises("the object was freed", f.copy, f, { to = copy.from, from = copy.to, width = 16 })
                    raises("the object was freed", f.copy_batch, f, { copy })
                    raises("the object was freed", stream.copy, stream, copy)
                    raises("the object was freed", stream.copy_batch, stream, { copy })
                end
            end
            raises("the object was freed", ferry.place, memory)
            assert(memory.address == nil and memory.pointer == nil and memory.array == nil)
            local got = ffi.new("char[16]")
            f:copy { to = got, from = beside, width = 16 }
            assert(ffi.string(got) == "untouched")
        end
    end
    stream:free()
    stream:free()
    raises("the object was freed", stream.copy, stream, { to = other, from = buffer, width = 16 })
    raises("the object was freed", stream.copy_batch, stream, {})
    raises("the object was freed", stream.synchronize, stream)
end)

test("a closed instance cannot be used, and its objects can only be freed", function()
    local f = open()
    local stream, memory, buffer = f:stream_create(0), f:device_alloc(0, 16), ffi.new("char[16]")
    f:close()
    local copy = { to = memory, from = buffer, width = 16 }
    raises("the instance was closed", f.copy, f, copy)
    raises("the instance was closed", f.copy_batch, f, {})
    raises("the instance was closed", f.device_alloc, f, 0, 16)
    raises("the instance was closed", f.host_alloc, f, 16)
    raises("the instance was closed", f.array_create, f, 0, {})
    raises("the instance was closed", f.stream_create, f, 0)
    raises("the instance was closed", stream.copy, stream, copy)
    raises("the instance was closed", stream.synchronize, stream)
    memory:free()
    stream:free()
    assert(f.state.users == 0)
end)

test("numbers that their field has no room for are refused", function()
    local f = open()
    local memory, buffer = f:device_alloc(0, 16), ffi.new("char[16]")
    local refused = { -1, -2 ^ 63, 0 / 0, 1 / 0, 0.5, 2 ^ 53 + 2, 2 ^ 64, "16", true, ffi.new("int64_t", -1) }
    for _, value in ipairs(refused) do
        for _, field in ipairs { "width", "height", "depth" } do
            local copy = { to = memory, from = buffer, width = 1 }
            copy[field] = value
            raises("extent." .. field .. ": ", f.copy, f, copy)
        end
        for _, field in ipairs { "x", "y", "z", "row_pitch", "slice_height" } do
            raises("place." .. field .. ": ", ferry.place, memory, { [field] = value })
        end
        raises("options.offset: ", ferry.place, memory, { offset = value })
        raises("options.size: ", f.device_alloc, f, 0, value)
        raises("options.size: ", f.host_alloc, f, value)
    end
    raises("extent.width: nil", f.copy, f, { to = memory, from = buffer })
    local copy, stream = { to = memory, from = buffer, width = 1 }, f:stream_create(0)
    for _, value in ipairs { -1, 2 ^ 32, 2 ^ 32 + 1, 0 / 0, 0.5 } do
        for _, field in ipairs { "flags", "max_sms" } do
            local options = { [field] = value }
            for _, call in ipairs { function() f:copy(copy, options) end, function() f:copy_batch({}, options) end,
                function() stream:copy(copy, options) end, function() stream:copy_batch({}, options) end } do
                local failure = raises("options." .. field .. ": ", call)
                assert(failure.side == C.FERRY_SIDE_OPTIONS and failure.field == C["FERRY_FIELD_" .. field:upper()])
            end
        end
    end
    for _, value in ipairs { 2 ^ 31, 2 ^ 32, -2 ^ 31 - 1, 0 / 0, 0.5 } do
        raises("options.device: ", f.device_alloc, f, value, 16)
        raises("options.device: ", f.array_create, f, value, {})
        raises("options.device: ", f.stream_create, f, value)
        raises("options.priority: ", f.stream_create, f, 0, 0, value)
    end
    raises("options.devices: ", ferry.struct, "ferry_software_options", { devices = 2 ^ 32 + 2 })
    raises("options.width: ", f.array_create, f, 0, { format = C.FERRY_FORMAT_UINT8, channels = 1, width = -1 })
    raises("options.min_size: ", f.host_alloc, f, 16, { min_size = -1 })
    raises("options.log: ", ferry.open, { driver = C.FERRY_DRIVER_SOFTWARE, log = function() end })
end)

test("options force a route, and their tag arrives in the ticket", function()
    local f = open { route = C.FERRY_ROUTE_STAGED, tag = 7 }
    local stream, memory, buffer = f:stream_create(0), f:device_alloc(0, 64), ffi.new("char[64]")
    local copy = ffi.new("ferry_copy_desc", { source = ferry.place(buffer).c, destination = ferry.place(memory).c,
        width = 64 })
    for _, case in ipairs { { nil, C.FERRY_ROUTE_STAGED, 7 }, { { route = C.FERRY_ROUTE_DRIVER }, C.FERRY_ROUTE_DRIVER, 0 },
        { { route = C.FERRY_ROUTE_STAGED, tag = 2 ^ 53 }, C.FERRY_ROUTE_STAGED, 2 ^ 53 } } do
        local ticket, info = ffi.new("ferry_ticket *[1]"), ferry.struct("ferry_ticket_info")
        local options = case[1] and ferry.struct("ferry_copy_options", case[1])
        ferry.check(C.ferry_copy_async(f.c, copy, options, stream.box[0], ticket, ferry.details))
        ferry.check(C.ferry_ticket_wait(ticket[0], C.FERRY_NO_TIMEOUT, ferry.details))
        ferry.check(C.ferry_ticket_get_info(ticket[0], info, ferry.details))
        ferry.check(C.ferry_ticket_release(ticket[0], ferry.details))
        assert(info.route == case[2] and tonumber(info.tag) == case[3])
    end
    -- No kernel can make this copy, so a call that ignores its options succeeds.
    local here, kernel = { to = ffi.new("char[64]"), from = buffer, width = 64 }, { route = C.FERRY_ROUTE_KERNEL }
    for _, call in ipairs { function(options) f:copy(here, options) end, function(options) f:copy_batch({ here }, options) end,
        function(options) stream:copy(here, options) end, function(options) stream:copy_batch({ here }, options) end } do
        local failure = fails_with(C.FERRY_ERROR_ROUTE, call, kernel)
        assert(failure.side == C.FERRY_SIDE_OPTIONS and failure.field == C.FERRY_FIELD_ROUTE)
        call {}
    end
    stream:free()
end)

test("a call names the field of the options that it refuses", function()
    local f = open()
    local stream, memory, buffer = f:stream_create(0), f:device_alloc(0, 64), ffi.new("char[64]")
    local copy = { to = memory, from = buffer, width = 64 }
    for _, case in ipairs { { "route", 99, "INVALID_ARGUMENT" }, { "route", C.FERRY_ROUTE_BUFFERED, "UNSUPPORTED" },
        { "priority", -1, "INVALID_ARGUMENT" }, { "priority", C.FERRY_PRIORITY_BACKGROUND, "UNSUPPORTED" },
        { "source_order", 3, "INVALID_ARGUMENT" }, { "flags", 2 ^ 20, "FLAGS" }, { "max_sms", 65536, "INVALID_ARGUMENT" } } do
        local field, value, status = unpack(case)
        local options = { [field] = value }
        for _, call in ipairs { function() f:copy(copy, options) end, function() f:copy_batch({ copy }, options) end,
            function() stream:copy(copy, options) end, function() stream:copy_batch({ copy }, options) end,
            function() open(options) end } do
            local failure = fails_with(C["FERRY_ERROR_" .. status], call)
            assert(failure.side == C.FERRY_SIDE_OPTIONS and failure.field == C["FERRY_FIELD_" .. field:upper()])
        end
    end
    raises("has no member named 'tga'", ferry.struct, "ferry_copy_options", { tga = 7 })
    stream:free()
end)

test("a box that leaves its memory is refused", function()
    local f = open()
    local stream = f:stream_create(0)
    local memory, pinned, array = f:device_alloc(0, 100), f:host_alloc(100), ffi.new("uint8_t[?]", 100)
    local rows, struct, text = ffi.new("int32_t[5][5]"), ffi.new("struct { char text[100]; }"), ("t"):rep(100)
    for _, bad in ipairs { { {}, 101 }, { { x = 1, row_pitch = 101 }, 100 }, { { row_pitch = 30 }, 11, 4 },
        { { row_pitch = 10, slice_height = 5 }, 10, 1, 3 }, { { offset = 100 }, 1 }, { { offset = 101 }, 1 },
        { {}, 2 ^ 40, 2 ^ 40 }, { { z = 2 ^ 50, slice_height = 2 ^ 50, row_pitch = 2 ^ 31 - 1 }, 1 } } do
        local at, width, height, depth = unpack(bad)
        for _, one in ipairs { memory, pinned, array, rows, struct, text } do
            local other = ffi.cast("char *", ffi.C.malloc(1))
            local copy = { from = ferry.place(one, at), to = other, width = width, height = height, depth = depth }
            for _, call in ipairs { function() f:copy(copy) end, function() stream:copy(copy) end } do
                local failure = fails_with(C.FERRY_ERROR_OUT_OF_BOUNDS, call)
                assert(failure.side == C.FERRY_SIDE_SOURCE and failure.field == C.FERRY_FIELD_WIDTH)
            end
            copy.to, copy.from = copy.from, other
            if one == text then
                raises("a string cannot be written", f.copy, f, copy)
            else
                local good = { to = memory, from = pinned, width = 100 }
                local failure = fails_with(C.FERRY_ERROR_OUT_OF_BOUNDS, f.copy_batch, f, { good, copy })
                assert(failure.side == C.FERRY_SIDE_DESTINATION and failure.index == 1)
            end
            ffi.C.free(other)
        end
    end
    f:copy { to = ferry.place(memory, { row_pitch = 30 }), from = text, width = 10, height = 4 }
    f:copy { to = rows, from = memory, width = 100 }
    assert(rows[0][0] == 0x74747474)
    for _, bad in ipairs { 5, true, f, stream, print, {} } do
        raises("is not memory", f.copy, f, { to = memory, from = bad, width = 1 })
    end
end)

-- With the software libcuda in the library path.
if os.getenv("FERRY_SOFTWARE_LIBCUDA") then
    test("objects of another driver are refused", function()
        local f, cuda = open(), ferry.open { driver = C.FERRY_DRIVER_CUDA }
        local stream, memory, cuda_memory = f:stream_create(0), f:device_alloc(0, 16), cuda:device_alloc(0, 16)
        local copy = { to = memory, from = cuda_memory, width = 16 }
        raises("belongs to another driver", f.copy, f, copy)
        raises("belongs to another driver", stream.copy, stream, copy)
        raises("belongs to another driver", cuda.copy_batch, cuda, { copy })
    end)
end

local passed, failed = 0, 0
for _, name in ipairs(names) do
    local ok, failure = xpcall(tests[name], function(failure) return debug.traceback(tostring(failure)) end)
    if ok then passed = passed + 1 else failed = failed + 1 end
    print((ok and "ok " or "FAILED ") .. name .. (ok and "" or ": " .. failure))
end
print(passed .. " passed, " .. failed .. " failed, 0 skipped")
os.exit(failed == 0, true) -- true: runs the finalizers
