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

-- Files

ffi.cdef "int open(const char *, int, ...); long lseek(int, long, int); int close(int);"
local read_write = { flags = C.FERRY_FILE_READ + C.FERRY_FILE_WRITE }

-- Calls body(path) with a file that has these bytes.
local function with_file(contents, body)
    local path = os.tmpname()
    local handle = assert(io.open(path, "wb"))
    handle:write(contents)
    handle:close()
    local ok, failure = pcall(body, path)
    os.remove(path)
    if not ok then error(failure, 0) end
end

local function contents_of(path)
    local handle = assert(io.open(path, "rb"))
    local contents = handle:read("*a")
    handle:close()
    return contents
end

local function text_of(f, memory)
    local got = ffi.new("uint8_t[?]", memory.size)
    f:copy { to = got, from = memory, width = memory.size }
    return ffi.string(got, memory.size)
end

test("a box goes to a file and back, and changes nothing around it", function()
    local f = open()
    local stream, size = f:stream_create(0), 700 * 40 * 3
    local sent, before = noise(size, 1), noise(50000, 2)
    local from, to, zeros = f:device_alloc(0, size), f:device_alloc(0, size), ffi.new("uint8_t[?]", size)
    f:copy { to = from, from = sent, width = size }
    for way, run in pairs { now = function(copy) f:copy(copy) end, ticket = function(copy)
        local ticket = stream:copy_with_ticket(copy)
        ticket:wait()
        local info = ticket:info()
        assert(info.done == 1 and info.bytes_done == 300 * 20 * 2 and info.file_error == 0)
        ticket:free()
    end } do
        with_file(ffi.string(before, 50000), function(path)
            local file, box = f:file_open(path, read_write), at(700, 40, 11, 5, 1)
            local there = at(500, 24, 7, 2, 1)
            there.offset = 4096
            f:copy { to = to, from = zeros, width = size }
            for _, ends in ipairs { { ferry.place(file, there), ferry.place(from, box) },
                { ferry.place(to, box), ferry.place(file, there) } } do
                run { to = ends[1], from = ends[2], width = 300, height = 20, depth = 2 }
            end
            local expected, expected_file = ffi.new("uint8_t[?]", size), ffi.new("uint8_t[?]", 50000)
            ffi.copy(expected_file, before, 50000)
            for z = 0, 1 do
                for y = 0, 19 do
                    local row = ((z + 1) * 40 + y + 5) * 700 + 11
                    ffi.copy(expected + row, sent + row, 300)
                    ffi.copy(expected_file + 4096 + ((z + 1) * 24 + y + 2) * 500 + 7, sent + row, 300)
                end
            end
            assert(contents_of(path) == ffi.string(expected_file, 50000), way .. ": wrong bytes in the file")
            assert(text_of(f, to) == ffi.string(expected, size), way .. ": wrong bytes")
            file:free()
        end)
    end
    stream:free()
end)

test("a file is made, and its old bytes are removed", function()
    local f = open()
    local memory = f:device_alloc(0, 1000)
    f:copy { to = memory, from = ("7"):rep(1000), width = 1000 }
    with_file(("x"):rep(5000), function(path)
        local flags = C.FERRY_FILE_WRITE + C.FERRY_FILE_CREATE + C.FERRY_FILE_TRUNCATE
        for _ = 1, 2 do
            local file = f:file_open(path, { flags = flags })
            assert(file:info().size == 0 and file:info().flags == C.FERRY_FILE_WRITE)
            f:copy { to = ferry.place(file, { offset = 5 }), from = memory, width = 1000 }
            assert(file:info().size == 1005)
            assert(contents_of(path) == ("\0"):rep(5) .. ("7"):rep(1000))
            file:free()
            os.remove(path)
        end
    end)
end)

test("pieces of a file are one copy", function()
    local f, content = open(), noise(300000, 3)
    local stream, memory = f:stream_create(0), f:device_alloc(0, 300000)
    with_file(ffi.string(content, 300000), function(path)
        local file = f:file_open(path)
        local offsets, sizes = { 299999, 0, 1000, 1007, 100000 }, { 1, 1000, 7, 65536, 12345 }
        local pieces, list = ffi.new("ferry_piece[5]"), ffi.new("ferry_piece_list")
        for i = 0, 4 do
            pieces[i].source, pieces[i].size = offsets[i + 1], sizes[i + 1]
            pieces[i].destination = memory.address + 70000 * i % 290000
        end
        C.ferry_piece_list_set(list, pieces, 5)
        list.source_file = file.file
        local ticket = ffi.new("ferry_ticket *[1]")
        for way, run in pairs { now = function()
            ferry.check(C.ferry_copy_pieces(f.c, list, nil, ferry.details))
        end, ticket = function()
            ferry.check(C.ferry_copy_pieces_async(f.c, list, nil, stream.box[0], ticket, ferry.details))
            ferry.check(C.ferry_ticket_wait(ticket[0], C.FERRY_NO_TIMEOUT, ferry.details))
            ferry.check(C.ferry_ticket_release(ticket[0], ferry.details))
        end } do
            f:copy { to = memory, from = ffi.new("uint8_t[300000]"), width = 300000 }
            run()
            local got = text_of(f, memory)
            for i = 0, 4 do
                local from = 70000 * i % 290000
                local wanted = ffi.string(content + offsets[i + 1], sizes[i + 1])
                assert(got:sub(from + 1, from + sizes[i + 1]) == wanted, way .. ": piece " .. i)
            end
        end
        file:free()
    end)
    stream:free()
end)

test("the file of a descriptor keeps its position and may be closed", function()
    local f, content = open(), noise(1000, 4)
    local memory = f:device_alloc(0, 100)
    with_file(ffi.string(content, 1000), function(path)
        local descriptor = ffi.C.open(path, 2) -- O_RDWR
        assert(ffi.C.lseek(descriptor, 50, 0) == 50)
        local file = f:file_open_descriptor(descriptor)
        assert(file:info().size == 1000 and file:info().flags == read_write.flags)
        f:copy { to = memory, from = ferry.place(file, { offset = 3 }), width = 100 }
        assert(text_of(f, memory) == ffi.string(content + 3, 100))
        assert(ffi.C.lseek(descriptor, 0, 1) == 50)
        ffi.C.close(descriptor)
        f:copy { to = ferry.place(file, { offset = 200 }), from = memory, width = 100 }
        assert(contents_of(path):sub(201, 300) == ffi.string(content + 3, 100))
        local failure = fails_with(C.FERRY_ERROR_FILE, f.file_open_descriptor, f, descriptor)
        assert(failure.field == C.FERRY_FIELD_OS_HANDLE and failure.file_error == 9) -- EBADF
    end)
end)

-- The size of every file in sysfs is 4096 bytes, but this file ends earlier.
test("a file that ends early fails its ticket and its copy", function()
    local f, path = open(), "/sys/devices/system/cpu/online"
    local stream, memory, file = f:stream_create(0), f:device_alloc(0, 100), f:file_open(path)
    local last = #contents_of(path)
    local copy = { to = memory, from = ferry.place(file, { offset = 1 }), width = 100 }
    local ticket = stream:copy_with_ticket(copy)
    for _, call in ipairs { function() ticket:wait() end, function() f:copy(copy) end } do
        local failure = fails_with(C.FERRY_ERROR_FILE, call)
        assert(failure.file_error == C.FERRY_FILE_ENDED and failure.limit == last, tostring(failure))
    end
    local info = ticket:info()
    assert(info.status == C.FERRY_ERROR_FILE and info.file_error == C.FERRY_FILE_ENDED and info.file_offset == last)
    stream:synchronize() -- the stream goes on
    ticket:cancel() -- it has ended
    local other = f:device_alloc(0, 100)
    local of_memory = stream:copy_with_ticket { to = other, from = memory, width = 100 }
    fails_with(C.FERRY_ERROR_UNSUPPORTED, function() of_memory:cancel() end)
    of_memory:free()
    ticket:free()
    raises("the object was freed", ticket.wait, ticket)
    raises("the object was freed", ticket.info, ticket)
    stream:free()
end)

test("what cannot be opened or copied is named", function()
    local f = open()
    local stream, memory = f:stream_create(0), f:device_alloc(0, 100)
    with_file(("x"):rep(1000), function(path)
        local failure = fails_with(C.FERRY_ERROR_FILE, f.file_open, f, path .. ".missing")
        assert(failure.field == C.FERRY_FIELD_PATH and failure.file_error == 2) -- ENOENT
        failure = fails_with(C.FERRY_ERROR_HANDLE, f.file_open, f, "/tmp")
        assert(failure.field == C.FERRY_FIELD_PATH and failure.file_error == nil)
        failure = fails_with(C.FERRY_ERROR_FLAGS, f.file_open, f, path, { flags = C.FERRY_FILE_CREATE })
        assert(failure.side == C.FERRY_SIDE_OPTIONS and failure.field == C.FERRY_FIELD_FLAGS)
        for _, bad in ipairs { "a\0b", 5, true } do
            assert(raises("file.path: ", f.file_open, f, bad).field == C.FERRY_FIELD_PATH)
        end
        raises("options.os_handle: ", f.file_open_descriptor, f, 0.5)
        raises("options.flags: ", f.file_open, f, path, { flags = -1 })

        local file = f:file_open(path)
        local function copy(to, from) return { to = to, from = from, width = 100 } end
        failure = fails_with(C.FERRY_ERROR_OUT_OF_BOUNDS, f.copy, f, copy(memory, ferry.place(file, { offset = 901 })))
        assert(failure.side == C.FERRY_SIDE_SOURCE and failure.field == C.FERRY_FIELD_OFFSET)
        assert(failure.value == 1001 and failure.limit == 1000)
        failure = fails_with(C.FERRY_ERROR_HANDLE, f.copy, f, copy(file, memory))
        assert(failure.side == C.FERRY_SIDE_DESTINATION and failure.field == C.FERRY_FIELD_FILE)
        local here = ffi.new("char[100]")
        f:copy(copy(here, file))
        assert(ffi.string(here, 100) == ("x"):rep(100))
        failure = fails_with(C.FERRY_ERROR_INVALID_ARGUMENT, stream.copy, stream, copy(memory, file))
        assert(failure.field == C.FERRY_FIELD_TICKET)
        local place = ferry.place(file)
        file:free()
        file:free()
        for _, from in ipairs { file, place } do
            raises("the object was freed", f.copy, f, copy(memory, from))
            raises("the object was freed", stream.copy_with_ticket, stream, copy(memory, from))
        end
        raises("the object was freed", file.info, file)
    end)
    stream:free()
end)

test("files and tickets may be collected in any order", function()
    for _ = 1, 20 do
        local f = open()
        local stream, memory = f:stream_create(0), f:device_alloc(0, 4)
        local file = f:file_open("/sys/devices/system/cpu/online")
        local ticket, state = stream:copy_with_ticket { to = memory, from = file, width = 4 }, f.state
        f, stream, memory, file, ticket = nil, nil, nil, nil, nil
        collectgarbage()
        collectgarbage()
        assert(state.users == 0)
    end
end)

test("a free closes the file for the system", function()
    local function next_descriptor()
        local descriptor = ffi.C.open("/dev/null", 0)
        ffi.C.close(descriptor)
        return descriptor
    end
    local f, before = open(), next_descriptor()
    local file = f:file_open("/sys/devices/system/cpu/online")
    assert(next_descriptor() ~= before)
    file:free()
    assert(next_descriptor() == before)
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
