-- ferry for LuaJIT: objects, errors and anchors over the C interface, which is all in ferry.C.
--
--   local ferry = require("ferry").load("libferry.so.1", "/usr/include/ferry/ferry.ffi.h")
--   local f = ferry.open { driver = ferry.C.FERRY_DRIVER_AUTO }
--   local memory = f:device_alloc(0, 4096)
--   f:copy { to = memory, from = ffi.new("char[4096]"), width = 4096 }
--
-- Objects free themselves when they are collected, or by free(). A free may wait for running work, so free large ones
-- yourself. A stream keeps the memory of its copies alive until they have ended. Sizes and positions are bytes, rows
-- and slices, as in ferry.h. Nothing checks that a box lies within memory of ffi.new.
--
-- A call that waits stops the whole Lua state. Callbacks (ferry_options.submit, ferry_stream_notify) come from other
-- threads, on which no Lua may run: write them in C.
local ffi = require "ffi"

local ferry = {}
local C -- the library

-- Errors are tables with what ferry_error_info has; tostring makes the line of ferry_error_format.
local error_type = {}
error_type.__index = error_type
error_type.__tostring = function(self) return self.message end

-- Raises an error unless status is 0. `info` has the details, if the call gave any.
function ferry.check(status, info)
    if status == 0 then return end
    info = info or ferry.error_info()
    info.status = status -- calls without an error parameter return only this
    local line = ffi.new("char[512]")
    C.ferry_error_format(info, line, ffi.sizeof(line))
    error(setmetatable({
        status = status, side = info.side, field = info.field, index = tonumber(info.index),
        value = info.value, limit = info.limit, message = ffi.string(line) }, error_type), 0)
end

-- A struct that begins with struct_size.
function ferry.struct(name, fields)
    local struct = ffi.new(name, fields or {})
    struct.struct_size = ffi.sizeof(struct)
    return struct
end

function ferry.error_info() return ferry.struct("ferry_error_info") end

local instance, memory, stream = {}, {}, {}
instance.__index, memory.__index, stream.__index = instance, memory, stream

-- Lua collects objects in any order, but an instance must be closed after all of its objects.
local function leave(state)
    state.users = state.users - 1
    if state.users == 0 then C.ferry_close(state.c) end
end

-- Makes an object of a handle that `create` stores in its parameter and `destroy` ends. The finalizer belongs to `box`
-- and must not refer to the object itself. `anchors` live until it has run.
local function own(f, class, type, create, destroy, anchors)
    local box, info, state = ffi.new(type .. "[1]"), ferry.error_info(), f.state
    ferry.check(create(box, info), info)
    state.users = state.users + 1
    local self = setmetatable({ box = box, f = f, anchors = anchors }, class)
    self.finish = function(handle)
        local status = destroy(handle[0])
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
    local finish = self.finish
    self.finish = nil
    ffi.gc(self.box, nil)
    ferry.check(finish(self.box))
end
memory.free, stream.free = free, free

-- Opens an instance. `options` are fields of ferry_options, without callbacks.
function ferry.open(options)
    local box, info = ffi.new("ferry_instance *[1]"), ferry.error_info()
    ferry.check(C.ferry_open(ferry.struct("ferry_options", options), box, info), info)
    local state = { c = box[0], users = 1 }
    ffi.gc(box, function() leave(state) end)
    return setmetatable({ c = box[0], box = box, state = state }, instance)
end

-- Closes the instance once its last object is gone. It must not be used any more.
function instance:close()
    if not self.c then return end
    ffi.gc(self.box, nil)
    self.c = nil
    leave(self.state)
end

function instance:device_alloc(device, size)
    local c = self.c
    local self = own(self, memory, "uint64_t", function(box, info)
        return C.ferry_device_alloc(c, device, size, box, info)
    end, function(address) return C.ferry_device_free(c, address) end)
    self.kind, self.device, self.address, self.size = C.FERRY_KIND_DEVICE, device, self.box[0], size
    return self
end

-- Pinned host memory; its `pointer` is a uint8_t *. `options` are fields of ferry_host_options.
function instance:host_alloc(size, options)
    local c, block = self.c, ferry.struct("ferry_host_block")
    local self = own(self, memory, "void *", function(box, info)
        local status = C.ferry_host_alloc(c, size, ferry.struct("ferry_host_options", options), block, info)
        box[0] = block.address
        return status
    end, function(address) return C.ferry_host_free(c, address) end)
    self.kind, self.pointer, self.size = C.FERRY_KIND_HOST, ffi.cast("uint8_t *", block.address), tonumber(block.size)
    self.address = ffi.cast("uint64_t", ffi.cast("uintptr_t", block.address))
    return self
end

-- `shape` are fields of ferry_array_desc.
function instance:array_create(device, shape)
    local c = self.c
    local self = own(self, memory, "struct CUarray_st *", function(box, info)
        return C.ferry_array_create(c, device, ferry.struct("ferry_array_desc", shape), box, info)
    end, function(array) return C.ferry_array_destroy(c, array) end)
    self.kind, self.device, self.array = C.FERRY_KIND_ARRAY, device, self.box[0]
    return self
end

-- The finalizer of a stream waits for its work, because memory of ffi.new waits for nothing.
function instance:stream_create(device, flags, priority)
    local c = self.c
    return own(self, stream, "struct CUstream_st *", function(box, info)
        return C.ferry_stream_create(c, device, flags or C.FERRY_STREAM_NON_BLOCKING, priority or 0, box, info)
    end, function(handle)
        local status = C.ferry_stream_synchronize(c, handle)
        local destroyed = C.ferry_stream_destroy(c, handle)
        return status ~= 0 and status or destroyed
    end, {})
end

-- One end of a copy: an object, or an array or pointer of ffi, with x, y, z, row_pitch and slice_height of ferry_place,
-- and the offset of the first byte.
function ferry.place(memory, at)
    at = at or {}
    local place = ffi.new("ferry_place")
    if type(memory) == "table" then
        place.kind, place.device = memory.kind, memory.device or 0
        place.address, place.array = memory.address or 0, memory.array
    else
        place.kind = C.FERRY_KIND_HOST
        place.address = ffi.cast("uint64_t", ffi.cast("uintptr_t", ffi.cast("const void *", memory)))
    end
    place.address = place.address + (at.offset or 0)
    place.x, place.y, place.z = at.x or 0, at.y or 0, at.z or 0
    place.row_pitch, place.slice_height = at.row_pitch or 0, at.slice_height or 0
    return { c = place, anchor = memory, is_place = true }
end

local function as_place(given)
    return type(given) == "table" and given.is_place and given or ferry.place(given)
end

-- Fills a descriptor, and appends the memory of both ends to `anchors`.
local function describe(desc, copy, anchors)
    local to, from = as_place(copy.to), as_place(copy.from)
    desc.destination, desc.source = to.c, from.c
    desc.width, desc.height, desc.depth = copy.width, copy.height or 1, copy.depth or 1
    desc.flags = copy.flags or 0
    anchors[#anchors + 1] = { to.anchor, from.anchor }
end

local function describe_all(copies, anchors)
    local descs = ffi.new("ferry_copy_desc[?]", #copies)
    for i, copy in ipairs(copies) do describe(descs[i - 1], copy, anchors) end
    return descs
end

-- Copies, and returns when the copy is complete: { to =, from =, width =, height =, depth =, flags = }
function instance:copy(copy)
    local anchors, info = {}, ferry.error_info()
    local descs = describe_all({ copy }, anchors)
    ferry.check(C.ferry_copy(self.c, descs, info), info)
    return anchors -- until here the memory is in use
end

-- Makes many copies. The error of a bad one has its index, from 0 on.
function instance:copy_batch(copies, flags)
    local anchors, info = {}, ferry.error_info()
    local descs = describe_all(copies, anchors)
    ferry.check(C.ferry_copy_batch(self.c, descs, #copies, flags or 0, info), info)
    return anchors
end

-- Keeps the memory of copies alive until the stream has passed them. Drops what it has passed now and then.
function stream:keep(anchors)
    local kept = self.anchors[1]
    if kept and #kept >= 1000 then
        local done = ffi.new("int32_t[1]")
        ferry.check(C.ferry_stream_query(self.f.c, self.box[0], done))
        if done[0] == 1 then kept = nil end
    end
    kept = kept or {}
    for _, anchor in ipairs(anchors) do kept[#kept + 1] = anchor end
    self.anchors[1] = kept
end

-- Enqueues a copy. Its source must not be written before the stream has passed it.
function stream:copy(copy)
    local anchors, info = {}, ferry.error_info()
    local descs = describe_all({ copy }, anchors)
    self:keep(anchors) -- first: a copy that fails may have enqueued a part
    ferry.check(C.ferry_copy_async(self.f.c, descs, self.box[0], nil, info), info)
end

-- Enqueues many copies.
function stream:copy_batch(copies, flags)
    local anchors, info = {}, ferry.error_info()
    local descs = describe_all(copies, anchors)
    self:keep(anchors)
    ferry.check(C.ferry_copy_batch_async(self.f.c, descs, #copies, flags or 0, self.box[0], info), info)
end

-- Waits for the stream.
function stream:synchronize()
    ferry.check(C.ferry_stream_synchronize(self.f.c, self.box[0]))
    self.anchors[1] = nil
end

-- Reads ferry.ffi.h and loads the library.
function ferry.load(library, header)
    local file = assert(io.open(header or "/usr/include/ferry/ferry.ffi.h"))
    ffi.cdef(file:read("*a"))
    file:close()
    C = ffi.load(library or "libferry.so.1")
    ferry.C = C
    return ferry
end

return ferry
