-- ferry for LuaJIT: objects, errors and anchors over the C interface, which is all in ferry.C.
--
--   local ferry = require("ferry").load("libferry.so.0.7", "/usr/include/ferry/ferry.ffi.h")
--   local f = ferry.open { driver = ferry.C.FERRY_DRIVER_AUTO }
--   local memory = f:device_alloc(0, 4096)
--   f:copy { to = memory, from = ffi.new("char[4096]"), width = 4096 }
--
-- Objects free themselves when they are collected, or by free(). A free may wait for running work, so free large ones
-- yourself. Using a freed object or a closed instance raises an error. A stream keeps the memory of its copies alive
-- until they have ended. Sizes and positions are bytes, rows and slices, as in ferry.h. A box must lie within its object,
-- array, struct or string. A number must be an integer that its field has room for; pass one above 2^53 as a 64-bit
-- number, such as 9007199254740993ULL.
--
-- Pointers have no size and keep nothing alive, so ferry cannot check them. Among them are `array + 1` and the `pointer`
-- of pinned memory: pass the array or the object, and an offset. Nothing checks the calls of ferry.C.
--
-- One end of a copy may be a file of file_open, if the other end is device memory or an array. On a stream, such a copy
-- needs a ticket: stream:copy_with_ticket. After a failure of the file, the work of the stream goes on.
--
-- A call that waits stops the whole Lua state. Callbacks (ferry_options.submit, ferry_stream_notify) come from other
-- threads, on which no Lua may run: write them in C.
local ffi, bit = require "ffi", require "bit"

local ferry = {}
local C -- the library

-- Errors are tables with what ferry_error_info has; tostring makes the line of ferry_error_format.
local error_type = {}
error_type.__index = error_type
error_type.__tostring = function(self) return self.message end

-- Raises an error unless status is 0: ferry.check(C.ferry_staging_trim(f.c, ferry.details)). `info` is the struct that the
-- call got, by default ferry.details.
function ferry.check(status, info)
    if status == 0 then return end
    info = info or ferry.details
    ferry.details = ferry.error_info()
    info.status = status
    local line = ffi.new("char[512]")
    C.ferry_error_format(info, line, ffi.sizeof(line))
    error(setmetatable({
        status = status, side = info.side, field = info.field, item = info.item, index = tonumber(info.index),
        value = info.value, limit = info.limit, numbers = info.numbers, message = ffi.string(line),
        driver_function = info.driver_function ~= nil and ffi.string(info.driver_function) or nil,
        -- Of a file: the system's error number, or FERRY_FILE_ENDED.
        file_error = status == C.FERRY_ERROR_FILE and tonumber(ffi.cast("int32_t", info.value)) or nil
    }, error_type), 0)
end

-- Raises an error about an argument of `part`, which is an end of a FERRY_SIDE_*.
local function refuse(part, field, problem)
    local has_constant, constant = pcall(function() return C["FERRY_FIELD_" .. field:upper()] end)
    local sides = { extent = C.FERRY_SIDE_EXTENT, options = C.FERRY_SIDE_OPTIONS, descriptor = C.FERRY_SIDE_DESCRIPTOR,
        destination = C.FERRY_SIDE_DESTINATION, source = C.FERRY_SIDE_SOURCE }
    error(setmetatable({
        status = C.FERRY_ERROR_INVALID_ARGUMENT, side = sides[part] or C.FERRY_SIDE_NONE,
        field = has_constant and constant or C.FERRY_FIELD_NONE, item = C.FERRY_ITEM_NONE, index = 0, value = 0,
        limit = 0, numbers = C.FERRY_NUMBERS_NONE,
        message = part .. "." .. field .. ": " .. problem .. " (FERRY_ERROR_INVALID_ARGUMENT)" }, error_type), 0)
end

-- Stores a number in a field of a struct or an array, which must have room for it.
local function set(struct, key, value, part, field)
    local kind = type(value)
    local given = (kind == "number" or kind == "cdata") and tonumber(value)
    if given then struct[key] = value end
    if not given or tonumber(struct[key]) ~= given or kind == "number" and given > 2 ^ 53 then
        refuse(part, field or key, tostring(value) .. ", must be an integer in the range of its type")
    end
end

-- A number as C stores it.
local boxes = { int32_t = ffi.typeof("int32_t[1]"), uint32_t = ffi.typeof("uint32_t[1]"),
    int64_t = ffi.typeof("int64_t[1]"), uint64_t = ffi.typeof("uint64_t[1]") }
local function number(type, value, field)
    local box = boxes[type]()
    set(box, 0, value, "options", field)
    return box[0]
end

-- A struct that begins with struct_size.
function ferry.struct(name, fields)
    local is_struct = type(fields) == "cdata"
    local struct = is_struct and ffi.new(name, fields) or ffi.new(name)
    for field, value in pairs(is_struct and {} or fields or {}) do
        if type(value) == "number" then
            set(struct, field, value, "options")
        elseif type(value) == "function" then
            refuse("options", field, "a Lua function, must be one of C")
        else
            struct[field] = value
        end
    end
    struct.struct_size = ffi.sizeof(struct)
    return struct
end

-- The options of a call: fields of ferry_copy_options, or nil for the copy_options of ferry.open.
local function options_of(given) return given and ferry.struct("ferry_copy_options", given) end

function ferry.error_info() return ferry.struct("ferry_error_info") end

-- ferry.details is where calls describe their error until ferry.check reads it. Finalizers must not use it: they may run
-- between the two.

local instance, memory, stream, file, ticket = {}, {}, {}, {}, {}
for _, class in ipairs { instance, memory, stream, file, ticket } do class.__index = class end
ferry.memory = memory -- the metatable of memory and arrays

-- The instance's handle, for a call that uses an object, or the instance itself.
local function use(object)
    local f = object.f or object
    if not object.box then error("ferry: the object was freed", 0) end
    if not f.c then error("ferry: the instance was closed", 0) end
    return f.c
end

-- Waits until ferry's threads no longer access the memory of copies. After a context has died, they may access it until
-- they finish their current chunk. Returns the status that reports the end.
local function settled(c, status)
    if bit.band(C.ferry_status_traits(status), C.FERRY_STATUS_CONTEXT_DEAD) ~= 0 then
        local staging = ferry.struct("ferry_staging_info")
        repeat local failed = C.ferry_staging_get_info(c, staging, nil) until failed ~= 0 or staging.busy_threads == 0
    end
    return status
end

-- Lua collects objects in any order, but an instance must be closed after all of its objects.
local function leave(state)
    state.users = state.users - 1
    if state.users == 0 then C.ferry_close(state.c) end
end

-- Makes an object of a handle that `create` stores in its parameter and `destroy` ends. The finalizer belongs to `box`
-- and must not refer to the object itself. `anchors` live until it has run.
local function own(f, class, type, create, destroy, anchors)
    use(f)
    local box, state = ffi.new(type .. "[1]"), f.state
    ferry.check(create(box))
    state.users = state.users + 1
    local self = setmetatable({ box = box, f = f, anchors = anchors }, class)
    self.finish = function(handle, info)
        local status = destroy(handle[0], info)
        if anchors then anchors[1] = nil end
        leave(state)
        return status
    end
    ffi.gc(box, self.finish)
    return self
end

-- Ends an object now.
local function free(self)
    if not self.finish then return end
    local finish, box = self.finish, self.box
    self.finish, self.box, self.address, self.pointer, self.array, self.file = nil, nil, nil, nil, nil, nil
    ffi.gc(box, nil)
    ferry.check(finish(box, ferry.details))
end
memory.free, stream.free, file.free, ticket.free = free, free, free, free

-- Opens an instance. `options` are fields of ferry_options, without callbacks. `copy_options` are the options of calls
-- that have none: fields of ferry_copy_options.
function ferry.open(options)
    local box, given = ffi.new("ferry_instance *[1]"), {}
    for field, value in pairs(options or {}) do given[field] = value end
    given.copy_options = options_of(given.copy_options)
    ferry.check(C.ferry_open(ferry.struct("ferry_options", given), box, ferry.details))
    -- The state refers to `given`, so that ferry_open can read the structs in it.
    local state, report = { c = box[0], users = 1, options = given }, ferry.struct("ferry_report")
    C.ferry_instance_get_report(state.c, report, nil)
    state.driver = report.driver
    ffi.gc(box, function() leave(state) end)
    return setmetatable({ c = box[0], box = box, state = state }, instance)
end

-- Closes the instance once its last object is gone. Until then, its objects can only be freed.
function instance:close()
    if not self.c then return end
    ffi.gc(self.box, nil)
    self.c = nil
    leave(self.state)
end

function instance:device_alloc(device, size)
    local c = self.c
    device, size = number("int32_t", device, "device"), number("uint64_t", size, "size")
    local self = own(self, memory, "uint64_t", function(box)
        return C.ferry_device_alloc(c, device, size, box, ferry.details)
    end, function(address, info) return C.ferry_device_free(c, address, info) end)
    self.kind, self.device, self.address, self.size = C.FERRY_KIND_DEVICE, device, self.box[0],
        tonumber(size)
    return self
end

-- Pinned host memory; its `pointer` is a uint8_t *. `options` are fields of ferry_host_options.
function instance:host_alloc(size, options)
    local c, block = self.c, ferry.struct("ferry_host_block")
    size = number("uint64_t", size, "size")
    local self = own(self, memory, "void *", function(box)
        local status = C.ferry_host_alloc(c, size, ferry.struct("ferry_host_options", options), block, ferry.details)
        box[0] = block.address
        return status
    end, function(address, info) return C.ferry_host_free(c, address, info) end)
    self.kind, self.pointer, self.size = C.FERRY_KIND_HOST, ffi.cast("uint8_t *", block.address), tonumber(block.size)
    self.address = ffi.cast("uint64_t", ffi.cast("uintptr_t", block.address))
    return self
end

-- `shape` are fields of ferry_array_desc.
function instance:array_create(device, shape)
    local c = self.c
    device = number("int32_t", device, "device")
    local self = own(self, memory, "struct CUarray_st *", function(box)
        return C.ferry_array_create(c, device, ferry.struct("ferry_array_desc", shape), box, ferry.details)
    end, function(array, info) return C.ferry_array_destroy(c, array, info) end)
    self.kind, self.device, self.array = C.FERRY_KIND_ARRAY, device, self.box[0]
    return self
end

-- The finalizer of a stream waits for its work, because memory of ffi.new waits for nothing.
function instance:stream_create(device, flags, priority)
    local c = self.c
    device, priority = number("int32_t", device, "device"), number("int32_t", priority or 0, "priority")
    flags = number("uint32_t", flags or C.FERRY_STREAM_NON_BLOCKING, "flags")
    return own(self, stream, "struct CUstream_st *", function(box)
        return C.ferry_stream_create(c, device, flags, priority, box, ferry.details)
    end, function(handle, info)
        local status = settled(c, C.ferry_stream_synchronize(c, handle, info))
        local destroyed = C.ferry_stream_destroy(c, handle, status == 0 and info or nil)
        return status ~= 0 and status or destroyed
    end, {})
end

local function own_file(f, open)
    local self = own(f, file, "ferry_file *", open, function(handle)
        C.ferry_file_close(handle)
        return 0
    end)
    self.kind, self.file = C.FERRY_KIND_FILE, self.box[0]
    return self
end

-- Opens a file. `options` are fields of ferry_file_options, by default to read. The `file` of the object is a pointer
-- for ferry_piece_list.source_file. A free does not affect copies in flight.
function instance:file_open(path, options)
    if type(path) ~= "string" or path:find("\0", 1, true) then
        refuse("file", "path", tostring(path) .. ", must be a string without zeros")
    end
    local given = ferry.struct("ferry_file_options", options)
    return own_file(self, function(box) return C.ferry_file_open(self.c, path, given, box, ferry.details) end)
end

-- Opens the file of a descriptor or, on Windows, of a HANDLE, by default with the same access. The program may close it.
function instance:file_open_descriptor(os_handle, options)
    os_handle = number("int64_t", os_handle, "os_handle")
    local given = ferry.struct("ferry_file_options", options)
    return own_file(self, function(box)
        return C.ferry_file_open_descriptor(self.c, os_handle, given, box, ferry.details)
    end)
end

-- A ferry_file_info: the size of the file, now, and the flags.
function file:info()
    use(self)
    local info = ferry.struct("ferry_file_info")
    ferry.check(C.ferry_file_get_info(self.file, info, ferry.details))
    return info
end

-- The bytes of an array or a struct; nil for pointers and numbers, which have the size of themselves.
local function size_of(cdata)
    local type = tostring(ffi.typeof(cdata))
    if type:find("%(%*") then return nil end -- a pointer to an array or a function
    if type:find("%]>$") or type:find("^ctype<struct [^%*]*>$") or type:find("^ctype<union [^%*]*>$") then
        return ffi.sizeof(cdata)
    end
end

-- One end of a copy: an object, a file, or an array, struct or pointer of ffi, or as source a string; with x, y, z,
-- row_pitch and slice_height of ferry_place, and the offset of the first byte.
function ferry.place(memory, at)
    at = at or {}
    local place, size, kind = ffi.new("ferry_place"), nil, type(memory)
    local class = kind == "table" and getmetatable(memory)
    if class == ferry.memory or class == file then
        use(memory)
        place.kind, place.device, place.file = memory.kind, memory.device or 0, memory.file
        place.address, place.array, size = memory.address or 0, memory.array, memory.size
    elseif kind == "cdata" or kind == "string" or kind == "userdata" then
        place.kind = C.FERRY_KIND_HOST
        place.address = ffi.cast("uint64_t", ffi.cast("uintptr_t", ffi.cast("const void *", memory)))
        size = kind == "string" and #memory or kind == "cdata" and size_of(memory) or nil
    else
        error("ferry: a " .. kind .. " is not memory", 0)
    end
    for _, field in ipairs { "x", "y", "z", "row_pitch", "slice_height" } do
        set(place, field, at[field] or 0, "place")
    end
    local offset = number("uint64_t", at.offset or 0, "offset")
    place.address = place.address + offset
    size = size and size - tonumber(offset)
    return { c = place, anchor = memory, size = size, is_place = true, is_constant = kind == "string" }
end

local function as_place(given)
    return type(given) == "table" and given.is_place and given or ferry.place(given)
end

-- The bytes that a copy needs from the address of a place on. Exact below 2^53, where all memory ends.
local function reach(place, desc)
    local width, height, depth = tonumber(desc.width), tonumber(desc.height), tonumber(desc.depth)
    height, depth = math.max(height, 1), math.max(depth, 1)
    local pitch, slice_height = tonumber(place.row_pitch), tonumber(place.slice_height)
    if pitch == 0 then pitch = width end
    if slice_height == 0 then slice_height = height end
    local rows = (tonumber(place.z) + depth - 1) * slice_height + tonumber(place.y) + height - 1
    return rows * pitch + tonumber(place.x) + width
end

-- Checks an end of copy number `index`.
local function check_end(f, place, desc, side, index)
    local memory = place.anchor
    if type(memory) == "table" then
        use(memory)
        if memory.f.state.driver ~= f.state.driver then error("ferry: the object belongs to another driver", 0) end
    end
    if not place.size or desc.width == 0 then return end
    local needed = reach(place.c, desc)
    if needed > place.size then
        local info = ferry.error_info()
        info.side, info.field, info.index = side, C.FERRY_FIELD_WIDTH, index
        info.value, info.limit = math.min(needed, 2 ^ 63), math.max(place.size, 0)
        info.item, info.numbers = C.FERRY_ITEM_COPY, C.FERRY_NUMBERS_END
        ferry.check(C.FERRY_ERROR_OUT_OF_BOUNDS, info)
    end
end

-- Fills a descriptor, and appends the memory of both ends to `anchors`.
local function describe(f, desc, copy, index, anchors)
    local to, from = as_place(copy.to), as_place(copy.from)
    if to.is_constant then error("ferry: a string cannot be written", 0) end
    desc.destination, desc.source = to.c, from.c
    set(desc, "width", copy.width, "extent")
    set(desc, "height", copy.height or 1, "extent")
    set(desc, "depth", copy.depth or 1, "extent")
    check_end(f, from, desc, C.FERRY_SIDE_SOURCE, index)
    check_end(f, to, desc, C.FERRY_SIDE_DESTINATION, index)
    anchors[#anchors + 1] = { to.anchor, from.anchor }
end

local function describe_all(f, copies, anchors)
    local descs = ffi.new("ferry_copy_desc[?]", #copies)
    for i = 1, #copies do describe(f, descs[i - 1], copies[i], i - 1, anchors) end
    return descs
end

-- Copies, and returns when the copy is complete: { to =, from =, width =, height =, depth = }. `options` are fields of
-- ferry_copy_options, such as { route = C.FERRY_ROUTE_KERNEL }.
function instance:copy(copy, options)
    local c, anchors = use(self), {}
    local descs = describe_all(self, { copy }, anchors)
    ferry.check(settled(c, C.ferry_copy(c, descs, options_of(options), ferry.details)))
    return anchors -- until here the memory is in use
end

-- Makes many copies. The error of a bad one has its index, from 0 on.
function instance:copy_batch(copies, options)
    local c, anchors = use(self), {}
    local descs = describe_all(self, copies, anchors)
    ferry.check(settled(c, C.ferry_copy_batch(c, descs, #copies, options_of(options), ferry.details)))
    return anchors
end

-- Keeps the memory of copies alive until the copies have completed. Drops the memory of completed copies now and then.
function stream:keep(anchors)
    local kept = self.anchors[1]
    if kept and #kept >= 1000 then
        local done = ffi.new("int32_t[1]")
        ferry.check(C.ferry_stream_query(use(self), self.box[0], done, ferry.details))
        if done[0] == 1 then kept = nil end
    end
    kept = kept or {}
    for _, anchor in ipairs(anchors) do kept[#kept + 1] = anchor end
    self.anchors[1] = kept
end

local function enqueue(self, copy, options, box)
    local c, anchors, how = use(self), {}, options_of(options)
    local descs = describe_all(self.f, { copy }, anchors)
    self:keep(anchors) -- first: a copy that fails may have enqueued a part
    return C.ferry_copy_async(c, descs, how, self.box[0], box, ferry.details)
end

-- Enqueues a copy. Its source must not be written before the copy has completed.
function stream:copy(copy, options) ferry.check(enqueue(self, copy, options, nil)) end

-- Enqueues a copy, with a ticket that reports its progress and failures of a file.
function stream:copy_with_ticket(copy, options)
    return own(self.f, ticket, "ferry_ticket *", function(box) return enqueue(self, copy, options, box) end,
        function(handle, info) return C.ferry_ticket_release(handle, info) end)
end

-- Waits for the copy, and raises its error.
function ticket:wait()
    use(self)
    ferry.check(C.ferry_ticket_wait(self.box[0], C.FERRY_NO_TIMEOUT, ferry.details))
end

-- Cancels copies of files: what has not begun is not transferred.
function ticket:cancel()
    use(self)
    ferry.check(C.ferry_ticket_cancel(self.box[0], ferry.details))
end

-- A ferry_ticket_info.
function ticket:info()
    use(self)
    local info = ferry.struct("ferry_ticket_info")
    ferry.check(C.ferry_ticket_get_info(self.box[0], info, ferry.details))
    return info
end

-- Enqueues many copies.
function stream:copy_batch(copies, options)
    local c, anchors, how = use(self), {}, options_of(options)
    local descs = describe_all(self.f, copies, anchors)
    self:keep(anchors)
    ferry.check(C.ferry_copy_batch_async(c, descs, #copies, how, self.box[0], nil, ferry.details))
end

-- Waits for the stream.
function stream:synchronize()
    ferry.check(C.ferry_stream_synchronize(use(self), self.box[0], ferry.details))
    self.anchors[1] = nil
end

-- Reads ferry.ffi.h and loads the library.
function ferry.load(library, header)
    local file = assert(io.open(header or "/usr/include/ferry/ferry.ffi.h"))
    ffi.cdef(file:read("*a"))
    file:close()
    C = ffi.load(library or "libferry.so.0.7")
    ferry.C = C
    ferry.details = ferry.error_info()
    return ferry
end

return ferry
