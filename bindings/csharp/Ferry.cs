// ferry for C#: copies between managed arrays, pinned memory, GPU memory, CUDA arrays and files. Add this file and
// FerryNative.cs to a project that allows unsafe code. docs/languages.md states the rules for memory and threads.
//
// All of this file follows three rules:
// - A managed array stays pinned until its copy is complete. For a copy on a stream, a thread of the instance polls a
//   ticket. ferry's threads and the driver's threads run no managed code, because Mono's collector could not stop them.
// - No finalizer calls ferry. The instance records an object that was not disposed, and frees it later: in
//   FreeAbandoned, with a new allocation, or when the instance is disposed. An instance that is never disposed is never
//   closed.
// - A call keeps all objects that it uses. An object that is disposed during the call ends after the call. Disposing the
//   instance ends all its objects.
#if NETCOREAPP || NETSTANDARD2_1 || NETSTANDARD2_1_OR_GREATER || NET_STANDARD_2_1
#define FERRY_HAS_SPAN
#endif
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Win32.SafeHandles;

namespace Ferry
{
    // ---- The library's name

    public static unsafe partial class Native
    {
#if UNITY_5_3_OR_NEWER
        public const string Library = "ferry"; // the plug-in: libferry.so or ferry.dll in the project
#elif NETCOREAPP
        public const string Library = "ferry";

        static Native()
        {
            try { NativeLibrary.SetDllImportResolver(typeof(Native).Assembly, Resolve); }
            catch (InvalidOperationException) { } // the program has a resolver of its own, which must know "ferry"
        }

        static IntPtr Resolve(string name, Assembly assembly, DllImportSearchPath? path)
        {
            if (name != Library) return IntPtr.Zero;
            foreach (string file in new[] { "libferry.so.0.7", "ferry-0.7.dll", "libferry-0.7.dll" })
                if (NativeLibrary.TryLoad(file, assembly, path, out IntPtr library)) return library;
            return IntPtr.Zero; // the runtime looks for libferry.so and ferry.dll
        }
#else
        public const string Library = "libferry.so.0.7"; // Mono: elsewhere a dllmap gives the file's name
#endif
        internal const int LineSize = 1024; // several times ferry's longest line

        internal static string Text(byte* text)
        {
            if (text == null) return null;
            int length = 0;
            while (text[length] != 0) length++;
            return Encoding.UTF8.GetString(text, length);
        }
    }

    static class Number
    {
        /// <summary>A size or position for C, which must not be negative.</summary>
        internal static ulong Of(long value, string name)
        {
            if (value < 0) throw new ArgumentOutOfRangeException(name, value, "must not be negative");
            return (ulong)value;
        }
    }

    // ---- Errors

    /// <summary>A call of ferry failed. The message is the text of ferry_error_format.</summary>
    public sealed unsafe class FerryException : Exception
    {
        internal FerryException(ErrorInfo info) : base(info.ToString()) { Info = info; }

        public ErrorInfo Info { get; }
        /// <summary>May be a number that the enum does not name: the driver's result r is -1000 - r.</summary>
        public Status Status { get { return Info.Status; } }
        public Side Side { get { return Info.Side; } }
        public Field Field { get { return Info.Field; } }
        /// <summary>Of the copy, piece or other item that Item names.</summary>
        public long Index { get { return (long)Info.Index; } }
        public Item Item { get { return Info.Item; } }
        public ulong Value { get { return Info.Value; } }
        public ulong Limit { get { return Info.Limit; } }
        /// <summary>What Value and Limit are.</summary>
        public Numbers Numbers { get { return Info.Numbers; } }
        /// <summary>Of Status.File: the system's error number, or Constants.FileEnded. Limit is then the offset of the
        /// first byte that was not transferred. Else 0.</summary>
        public int FileError { get { return Status == Status.File ? unchecked((int)Info.Value) : 0; } }
        /// <summary>The driver function that failed, such as "cuMemAlloc", or null.</summary>
        public string DriverFunction
        {
            get { return Info.DriverFunction == null ? null : Native.Text(Info.DriverFunction); }
        }
        /// <summary>All later calls on the context fail too.</summary>
        public bool IsContextDead { get { return (Traits & StatusTraits.ContextDead) != 0; } }
        public bool CanRetry { get { return (Traits & StatusTraits.Retry) != 0; } }
        StatusTraits Traits { get { return Native.ferry_status_traits(Info.Status); } }

        internal static ErrorInfo NewInfo() { return new ErrorInfo { StructSize = ErrorInfo.SizeOf }; }
    }

    /// <summary>Where the calls of one thread describe their error. The memory is reused after the end of its thread,
    /// but never freed: when the runtime ends, a background thread may be in a call.</summary>
    sealed unsafe class Calls
    {
        static readonly ConcurrentStack<IntPtr> unused = new ConcurrentStack<IntPtr>();
        [ThreadStatic] static Calls ofThread;
        readonly ErrorInfo* error;

        Calls()
        {
            IntPtr memory;
            if (!unused.TryPop(out memory)) memory = Marshal.AllocHGlobal(sizeof(ErrorInfo));
            error = (ErrorInfo*)memory;
            *error = FerryException.NewInfo();
        }

        ~Calls() { unused.Push((IntPtr)error); }

        internal static ErrorInfo* Error { get { return (ofThread ?? (ofThread = new Calls())).error; } }

        /// <summary>Throws the error of the thread's last call with Error, if it has failed.</summary>
        internal static void Check(Status status) { if (status != 0) throw new FerryException(*Error); }
    }

    public unsafe partial struct ErrorInfo
    {
        public override string ToString()
        {
            byte* line = stackalloc byte[Native.LineSize];
            ErrorInfo self = this;
            self.StructSize = SizeOf; // ferry would read behind the struct if the program has set more
            Native.ferry_error_format(&self, line, Native.LineSize);
            return Native.Text(line);
        }
    }

    public unsafe partial struct Explanation
    {
        public override string ToString()
        {
            byte* line = stackalloc byte[Native.LineSize];
            Explanation self = this;
            self.StructSize = SizeOf; // ferry would read behind the struct if the program has set more
            Native.ferry_explanation_format(&self, line, Native.LineSize);
            return Native.Text(line);
        }
    }

    public unsafe partial struct BatchExplanation
    {
        public override string ToString()
        {
            byte* line = stackalloc byte[Native.LineSize];
            BatchExplanation self = this;
            self.StructSize = SizeOf; // ferry would read behind the struct if the program has set more
            Native.ferry_batch_explanation_format(&self, line, Native.LineSize);
            return Native.Text(line);
        }
    }

    public unsafe partial struct DeviceInfo
    {
        public string NameText { get { fixed (byte* text = Name) return Native.Text(text); } }
        public string PciAddressText { get { fixed (byte* text = PciAddress) return Native.Text(text); } }
        public byte[] UuidBytes
        {
            get
            {
                byte[] bytes = new byte[16];
                fixed (byte* from = Uuid) Marshal.Copy((IntPtr)from, bytes, 0, 16);
                return bytes;
            }
        }
    }

    // ---- Lifetimes

    unsafe delegate Status End(IntPtr instance, IntPtr value, ErrorInfo* error);
    unsafe delegate Status EndOnStream(IntPtr instance, IntPtr value, IntPtr stream, ErrorInfo* error);

    /// <summary>An object that the instance must free once. The instance lists the records, not the handles, so the
    /// garbage collector still finds a handle that the program dropped.</summary>
    sealed class Record
    {
        internal IntPtr Value;
        internal End Free;      // null: not ours to free
        internal Record Parent; // it ends with this one
        internal readonly List<Record> Children = new List<Record>();
        internal LinkedListNode<Record> Node;
        internal volatile bool IsGone;
    }

    /// <summary>A ferry_instance. Its last user closes it, after Dispose.</summary>
    sealed unsafe class InstanceHandle : SafeHandle
    {
        readonly LinkedList<Record> records = new LinkedList<Record>();
        readonly ConcurrentQueue<Record> abandoned = new ConcurrentQueue<Record>();
        internal readonly Watcher Watcher;
        internal readonly Driver Driver;
        GCHandle callbacks; // keeps what they use
        internal volatile bool IsDisposing; // SafeHandle lets calls in until the last one before has ended

        internal InstanceHandle(IntPtr instance, GCHandle callbacks) : base(IntPtr.Zero, true)
        {
            SetHandle(instance);
            this.callbacks = callbacks;
            Watcher = new Watcher(instance);
            Report report = new Report { StructSize = Report.SizeOf };
            Native.ferry_instance_get_report(instance, &report, null);
            Driver = report.Driver;
        }

        /// <summary>After the context of a copy has died, ferry's threads may still access the copy's memory until they
        /// finish their current chunk.</summary>
        internal static bool IsAtMemory(IntPtr instance, Status status)
        {
            if ((Native.ferry_status_traits(status) & StatusTraits.ContextDead) == 0) return false;
            StagingInfo info = new StagingInfo { StructSize = StagingInfo.SizeOf };
            return Native.ferry_staging_get_info(instance, &info, null) == 0 && info.BusyThreads != 0;
        }

        /// <summary>Throws the error of a call that has used the program's memory, once nothing uses it any
        /// more.</summary>
        internal void Settle(Status status)
        {
            while (status != 0 && IsAtMemory(handle, status)) Thread.Sleep(1);
            Calls.Check(status);
        }

        public override bool IsInvalid { get { return handle == IntPtr.Zero; } }
        internal IntPtr Pointer { get { return handle; } }

        protected override void Dispose(bool disposing)
        {
            IsDisposing = disposing;
            base.Dispose(disposing);
        }

        protected override bool ReleaseHandle()
        {
            if (!IsDisposing) return true; // the finalizer: closing would block, and may call the log
            Watcher.Stop();
            while (true)
            {
                Record newest;
                lock (records)
                {
                    if (records.Last == null) break;
                    newest = records.Last.Value;
                    Take(newest);
                }
                newest.Free(handle, newest.Value, null);
            }
            Native.ferry_close(handle);
            callbacks.Free();
            return true;
        }

        internal void Add(Record record)
        {
            if (record.Free == null) return;
            lock (records)
            {
                record.IsGone = false;
                record.Node = records.AddLast(record);
                if (record.Parent != null) record.Parent.Children.Add(record);
                Record[] children = record.Children.ToArray(); // of a record that is put back
                record.Children.Clear();
                Array.ForEach(children, Add);
            }
        }

        /// <summary>Removes a record, and the records that end with it, from the list. False if it was not in the
        /// list.</summary>
        internal bool Take(Record record)
        {
            lock (records)
            {
                if (record.IsGone || record.Free == null) return false;
                if (record.Parent != null) record.Parent.Children.Remove(record);
                Remove(record);
                return true;
            }
        }

        void Remove(Record record)
        {
            record.IsGone = true;
            records.Remove(record.Node);
            record.Children.ForEach(Remove);
        }

        internal void Free(Record record)
        {
            bool isHeld = false;
            try { DangerousAddRef(ref isHeld); }
            catch (ObjectDisposedException) { return; } // closing frees it
            try { if (Take(record)) record.Free(handle, record.Value, null); }
            finally { DangerousRelease(); }
        }

        /// <summary>For finalizers: calls nothing.</summary>
        internal void Abandon(Record record) { abandoned.Enqueue(record); }

        internal void FreeAbandoned()
        {
            Record record;
            while (abandoned.TryDequeue(out record)) Free(record);
        }
    }

    /// <summary>One object of an instance.</summary>
    sealed unsafe class ObjectHandle : SafeHandle
    {
        internal readonly InstanceHandle Instance;
        internal readonly Record Record;
        internal readonly string Name;
        internal readonly ObjectHandle Parent; // kept, so that it is not abandoned before this one
        internal volatile bool IsDisposing; // SafeHandle lets calls in until the last one before has ended

        internal ObjectHandle(InstanceHandle instance, string name, IntPtr value, End free,
                              ObjectHandle parent = null) : base(IntPtr.Zero, true)
        {
            Instance = instance;
            Name = name;
            Parent = parent;
            Record = new Record { Value = value, Free = free, Parent = parent == null ? null : parent.Record };
            instance.Add(Record);
            SetHandle(value);
        }

        public override bool IsInvalid { get { return handle == IntPtr.Zero; } }
        internal IntPtr Pointer { get { return handle; } }

        protected override void Dispose(bool disposing)
        {
            IsDisposing = disposing;
            base.Dispose(disposing);
        }

        protected override bool ReleaseHandle()
        {
            if (IsDisposing) Instance.Free(Record);
            else Instance.Abandon(Record);
            return true;
        }

        /// <summary>Ends the object in the order of a stream. An error leaves the object unchanged.</summary>
        internal void EndAfter(FerryStream stream, EndOnStream free)
        {
            using (new Hold(this)) using (new Hold(stream.Handle, Instance))
            {
                if (!Instance.Take(Record)) throw new ObjectDisposedException(Name);
                Status status = free(Instance.Pointer, Record.Value, stream.Handle.Pointer, Calls.Error);
                if (status != 0) Instance.Add(Record);
                Calls.Check(status);
            }
            Dispose();
        }
    }

    /// <summary>Keeps an object and its instance from ending during a call.</summary>
    struct Hold : IDisposable
    {
        readonly InstanceHandle instance;
        readonly ObjectHandle held;

        internal Hold(InstanceHandle instance)
        {
            held = null;
            this.instance = null;
            AddRef(instance, "FerryInstance");
            this.instance = instance;
            if (!instance.IsDisposing) return;
            Dispose();
            throw new ObjectDisposedException("FerryInstance");
        }

        internal Hold(ObjectHandle held) : this(held.Instance)
        {
            try { AddRef(held, held.Name); }
            catch { Dispose(); throw; }
            this.held = held;
            if (!held.IsDisposing && !held.Record.IsGone) return;
            Dispose();
            throw new ObjectDisposedException(held.Name);
        }

        /// <summary>Keeps an object for a call of another object. A handle of the software driver would crash the
        /// NVIDIA driver.</summary>
        internal Hold(ObjectHandle held, InstanceHandle caller) : this(held)
        {
            if (held.Instance.Driver == caller.Driver) return;
            Dispose();
            throw new ArgumentException("the " + held.Name + " belongs to an instance on another driver");
        }

        /// <summary>Keeps the object without a struct. The caller must release it.</summary>
        internal static void Begin(ObjectHandle held, InstanceHandle caller) { new Hold(held, caller); }

        static void AddRef(SafeHandle one, string name)
        {
            bool isHeld = false;
            try { one.DangerousAddRef(ref isHeld); }
            catch (ObjectDisposedException) { throw new ObjectDisposedException(name); }
        }

        public void Dispose()
        {
            if (held != null) held.DangerousRelease();
            if (instance != null) instance.DangerousRelease();
        }
    }

    /// <summary>An object of an instance. Dispose frees the object and may wait for the device's running work.
    /// Disposing twice, or after the instance, does nothing. A call with a disposed object throws
    /// ObjectDisposedException.</summary>
    public abstract class FerryObject : IDisposable
    {
        internal readonly ObjectHandle Handle;

        internal FerryObject(ObjectHandle handle) { Handle = handle; }

        public void Dispose() { Handle.Dispose(); }

        /// <summary>The address or CUDA handle, for functions of Native. It is valid until Dispose.</summary>
        public IntPtr Pointer { get { using (new Hold(Handle)) return Handle.Pointer; } }
    }

    // ---- Pinning and waiting

    /// <summary>Pins arrays of any rank whose elements contain no references.</summary>
    static class Pins
    {
        static readonly ConcurrentDictionary<Type, bool> known = new ConcurrentDictionary<Type, bool>();

        static bool HoldsNoReferences(Type type)
        {
            bool result;
            if (known.TryGetValue(type, out result)) return result;
            result = type.IsPrimitive || type.IsEnum || type.IsPointer;
            const BindingFlags all = BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic;
            if (!result && type.IsValueType)
                result = Array.TrueForAll(type.GetFields(all), field => HoldsNoReferences(field.FieldType));
            known[type] = result;
            return result;
        }

        static readonly ConcurrentDictionary<Type, int> sizes = new ConcurrentDictionary<Type, int>();

        /// <summary>The bytes of an array. Marshal.SizeOf would return the size of marshalled elements: 1 for a
        /// char.</summary>
        internal static long SizeOf(Array array)
        {
            if (array == null) throw new ArgumentNullException("array");
            Type element = array.GetType().GetElementType();
            int size;
            if (!sizes.TryGetValue(element, out size))
            {
                if (!HoldsNoReferences(element))
                    throw new ArgumentException("elements of " + element + " contain references: they cannot be copied");
                Array two = Array.CreateInstance(element, 2);
                GCHandle pin = Pin(two);
                size = (int)(Marshal.UnsafeAddrOfPinnedArrayElement(two, 1).ToInt64() -
                             Marshal.UnsafeAddrOfPinnedArrayElement(two, 0).ToInt64());
                pin.Free();
                sizes[element] = size;
            }
            return array.LongLength * size;
        }

        internal static GCHandle Pin(Array array)
        {
            try { return GCHandle.Alloc(array, GCHandleType.Pinned); }
            catch (ArgumentException)
            {
                throw new ArgumentException("the runtime does not pin an array of " + array.GetType().GetElementType());
            }
        }
    }

    /// <summary>One thread of an instance that unpins arrays and completes tasks, when tickets are done.</summary>
    sealed unsafe class Watcher
    {
        sealed class Entry
        {
            internal IntPtr Ticket;
            internal ObjectHandle Owner; // of the ticket, held; null: the ticket is the entry's own
            internal List<GCHandle> Pins;
            internal TaskCompletionSource<bool> Task;
            internal ErrorInfo Error;
        }

        readonly IntPtr instance;
        readonly List<Entry> entries = new List<Entry>();
        Thread thread;
        bool isStopping;

        internal Watcher(IntPtr instance) { this.instance = instance; }

        internal Task Watch(IntPtr ticket, ObjectHandle owner, List<GCHandle> pins, bool wantsTask)
        {
            // Continuations never run on this thread: they may dispose the instance, which waits for the thread.
            TaskCompletionSource<bool> task =
                wantsTask ? new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously) : null;
            lock (entries)
            {
                entries.Add(new Entry { Ticket = ticket, Owner = owner, Pins = pins, Task = task });
                if (thread == null)
                {
                    thread = new Thread(Run) { IsBackground = true, Name = "ferry watcher" };
                    thread.Start();
                }
                Monitor.Pulse(entries);
            }
            return wantsTask ? task.Task : null;
        }

        /// <summary>Waits for all copies that are watched.</summary>
        internal void Stop()
        {
            lock (entries)
            {
                isStopping = true;
                Monitor.Pulse(entries);
            }
            if (thread != null) thread.Join();
        }

        void Run()
        {
            List<Entry> done = new List<Entry>();
            int idle = 0;
            while (true)
            {
                IntPtr oldest;
                lock (entries)
                {
                    while (entries.Count == 0)
                    {
                        if (isStopping) return;
                        Monitor.Wait(entries);
                        idle = 0;
                    }
                    oldest = isStopping ? entries[0].Ticket : IntPtr.Zero;
                    for (int i = entries.Count - 1; i >= 0; i--)
                    {
                        IntPtr ticket = entries[i].Ticket;
                        ErrorInfo error = FerryException.NewInfo();
                        TicketInfo info = new TicketInfo { StructSize = TicketInfo.SizeOf };
                        Status status = Native.ferry_ticket_get_info(ticket, &info, &error);
                        if (status == 0 && info.Done == 0) continue;
                        if (status == 0 && info.Status != 0)
                        {
                            status = Native.ferry_ticket_wait(ticket, -1, &error); // which only returns the details
                            if (status != info.Status) error = FerryException.NewInfo(); // an error of earlier work
                            status = error.Status = info.Status;
                        }
                        bool isInUse = entries[i].Pins != null && InstanceHandle.IsAtMemory(instance, status);
                        if (isInUse) continue;
                        entries[i].Error = error;
                        done.Add(entries[i]);
                        entries.RemoveAt(i);
                    }
                }
                done.Reverse(); // in the order in which they came
                done.ForEach(Finish);
                if (done.Count > 0) idle = 0;
                else if (oldest != IntPtr.Zero && Native.ferry_ticket_wait(oldest, -1, null) != 0) Thread.Sleep(1);
                else Thread.Sleep(idle++ < 10 ? 0 : 1);
                done.Clear();
            }
        }

        static void Finish(Entry entry)
        {
            if (entry.Pins != null) entry.Pins.ForEach(pin => pin.Free());
            // Not on this thread: the last release of an instance waits for it.
            ObjectHandle owner = entry.Owner;
            if (owner != null) ThreadPool.QueueUserWorkItem(unused => owner.DangerousRelease());
            else Native.ferry_ticket_release(entry.Ticket, null);
            if (entry.Task == null) return;
            if (entry.Error.Status == 0) entry.Task.TrySetResult(true);
            else entry.Task.TrySetException(new FerryException(entry.Error));
        }
    }

    // ---- Places

    /// <summary>One end of a copy: an array, memory, a file or an address, and the position of the box. Arrays and
    /// objects convert implicitly. A copy checks that its box is inside the array or object.</summary>
    public unsafe struct Place
    {
        internal NativePlace Native;
        internal Array Array;        // pinned during the copy
        internal ObjectHandle Owner; // held during the call
        internal long Size;          // in bytes, from the address on; -1 if it is not known

        /// <summary>A managed array of any rank, whose elements contain no references.</summary>
        public static implicit operator Place(Array array)
        {
            return new Place { Native = { Kind = PlaceKind.Host }, Array = array, Size = Pins.SizeOf(array) };
        }

        public static implicit operator Place(FerryMemory memory) { return memory.At(0); }
        public static implicit operator Place(FerryArray array) { return array.Place; }
        public static implicit operator Place(FerryFile file) { return file.At(0); }

        /// <summary>The caller's host memory, which must stay valid until the copy is complete.</summary>
        public static Place Host(IntPtr address, long size = -1)
        {
            return new Place { Native = { Kind = PlaceKind.Host, Address = (ulong)(long)address }, Size = size };
        }

        /// <summary>The caller's device memory.</summary>
        public static Place Device(ulong address, int device = Constants.DeviceUnknown, long size = -1)
        {
            return new Place { Native = { Kind = PlaceKind.Device, Device = device, Address = address }, Size = size };
        }

        /// <summary>The caller's CUarray.</summary>
        public static Place CudaArray(IntPtr array, int device = Constants.DeviceUnknown)
        {
            return new Place { Native = { Kind = PlaceKind.Array, Device = device, Array = array }, Size = -1 };
        }

        /// <summary>The same with rows `rowPitch` bytes and slices `sliceHeight` rows apart.</summary>
        public Place Pitched(long rowPitch, long sliceHeight = 0)
        {
            Place place = this;
            place.Native.RowPitch = Number.Of(rowPitch, "rowPitch");
            place.Native.SliceHeight = Number.Of(sliceHeight, "sliceHeight");
            return place;
        }

        /// <summary>The same with the box beginning at byte x of row y of slice z. A layer of an array is a
        /// slice.</summary>
        public Place At(long x, long y = 0, long z = 0)
        {
            Place place = this;
            place.Native.X = Number.Of(x, "x");
            place.Native.Y = Number.Of(y, "y");
            place.Native.Z = Number.Of(z, "z");
            return place;
        }

        /// <summary>Memory whose size is known must contain the box: the runtime's heap follows a managed array. ferry
        /// finds other mistakes.</summary>
        internal void CheckBounds(NativeCopy copy, Side side, long index)
        {
            long size = Array == null ? Size : Pins.SizeOf(Array); // a place may be torn, assigned by another thread
            if (size < 0 || copy.Width == 0) return;
            ulong height = Math.Max(copy.Height, 1), depth = Math.Max(copy.Depth, 1), end;
            try
            {
                checked
                {
                    ulong pitch = Native.RowPitch != 0 ? Native.RowPitch : copy.Width;
                    ulong rows = Native.SliceHeight != 0 ? Native.SliceHeight : height;
                    end = ((Native.Z + depth - 1) * rows + Native.Y + height - 1) * pitch + Native.X + copy.Width;
                }
            }
            catch (OverflowException) { end = ulong.MaxValue; }
            if (end <= (ulong)size) return;
            ErrorInfo info = FerryException.NewInfo();
            info.Status = Status.OutOfBounds;
            info.Side = side;
            info.Field = Field.Width;
            info.Item = index < 0 ? Item.None : Item.Copy;
            info.Index = index < 0 ? 0 : (ulong)index;
            info.Numbers = Numbers.End;
            info.Value = end;
            info.Limit = (ulong)size;
            throw new FerryException(info);
        }
    }

    /// <summary>The places of one call: kept and pinned until Dispose, or until a watched ticket is done.</summary>
    unsafe struct Uses : IDisposable
    {
        readonly InstanceHandle caller;
        List<GCHandle> pins;
        List<ObjectHandle> more; // after the first two, which need no list
        ObjectHandle first, second;

        internal Uses(InstanceHandle caller) : this() { this.caller = caller; }

        internal bool HasPins { get { return pins != null; } }

        internal void Use(Place place, NativePlace* native)
        {
            *native = place.Native;
            if (place.Owner != null) Keep(place.Owner);
            if (place.Array == null) return;
            GCHandle pin = Pins.Pin(place.Array);
            (pins = pins ?? new List<GCHandle>(2)).Add(pin);
            native->Address += (ulong)(long)Marshal.UnsafeAddrOfPinnedArrayElement(place.Array, 0);
        }

        void Keep(ObjectHandle owner)
        {
            if (owner == first || owner == second) return;
            if (more != null && more.Count > 0 && more[more.Count - 1] == owner) return; // as most pieces of a batch
            Hold.Begin(owner, caller); // until Dispose
            if (first == null) first = owner;
            else if (second == null) second = owner;
            else (more = more ?? new List<ObjectHandle>()).Add(owner);
        }

        internal List<GCHandle> TakePins()
        {
            List<GCHandle> taken = pins;
            pins = null;
            return taken;
        }

        public void Dispose()
        {
            if (pins != null) pins.ForEach(pin => pin.Free());
            pins = null;
            Release(first);
            Release(second);
            if (more != null) more.ForEach(Release);
        }

        static void Release(ObjectHandle owner)
        {
            if (owner == null) return;
            owner.DangerousRelease();
            owner.Instance.DangerousRelease();
        }
    }

    // How a copy, a batch or a fill is made. Calls without options use FerryOptions.CopyOptions. Calls set StructSize.
    public unsafe partial struct CopyOptions
    {
        /// <summary>The parameter of a function: `native` with the options, or null.</summary>
        internal static CopyOptions* Lower(CopyOptions? options, CopyOptions* native)
        {
            if (!options.HasValue) return null;
            *native = options.Value;
            native->StructSize = SizeOf;
            return native;
        }
    }

    /// <summary>One copy: a box of `width` bytes, `height` rows and `depth` slices.</summary>
    public unsafe struct CopyBox
    {
        public Place Source;
        public Place Destination;
        public long Width;
        public long Height;
        public long Depth;

        public CopyBox(Place source, Place destination, long width, long height = 1, long depth = 1)
        {
            Source = source;
            Destination = destination;
            Width = width;
            Height = height;
            Depth = depth;
        }

        internal void Lower(ref Uses uses, NativeCopy* native, long index)
        {
            *native = new NativeCopy();
            native->Width = Number.Of(Width, "width");
            native->Height = Number.Of(Height, "height");
            native->Depth = Number.Of(Depth, "depth");
            Source.CheckBounds(*native, Side.Source, index);
            Destination.CheckBounds(*native, Side.Destination, index);
            uses.Use(Source, &native->Source);
            uses.Use(Destination, &native->Destination);
        }
    }

    /// <summary>Many copies for one call, in any order. To make no garbage, keep and Clear a batch. Calls of several
    /// threads with one batch run one after another.</summary>
    public sealed unsafe class CopyBatch
    {
        CopyBox[] boxes = new CopyBox[16];
        internal NativeCopy[] Natives = new NativeCopy[16];
        internal readonly object Gate = new object(); // a call must see no other one's places

        public int Count { get; private set; }

        public void Add(CopyBox box)
        {
            lock (Gate)
            {
                if (Count == boxes.Length)
                {
                    Array.Resize(ref boxes, 2 * Count);
                    Array.Resize(ref Natives, 2 * Count);
                }
                boxes[Count++] = box;
            }
        }

        public void Add(Place source, Place destination, long width, long height = 1, long depth = 1)
        {
            Add(new CopyBox(source, destination, width, height, depth));
        }

        public void Clear()
        {
            lock (Gate)
            {
                Array.Clear(boxes, 0, Count); // forgets arrays and objects
                Count = 0;
            }
        }

        internal void Lower(ref Uses uses, NativeCopy* natives)
        {
            for (int i = 0; i < Count; i++) boxes[i].Lower(ref uses, natives + i, i);
        }

        internal CopyBox[] Boxes { get { return boxes; } }
    }

    // ---- Memory

    /// <summary>A block of memory.</summary>
    public abstract unsafe class FerryMemory : FerryObject
    {
        readonly NativePlace native;

        internal FerryMemory(ObjectHandle handle, long size, NativePlace native) : base(handle)
        {
            native.Address = (ulong)(long)handle.Record.Value;
            this.native = native;
            Size = size;
        }

        public long Size { get; }

        /// <summary>The part that begins `offset` bytes later.</summary>
        public Place At(long offset)
        {
            if (offset < 0 || offset > Size) throw new ArgumentOutOfRangeException("offset");
            Place place = new Place { Native = native, Owner = Handle, Size = Size - offset };
            place.Native.Address += (ulong)offset;
            return place;
        }
    }

    /// <summary>Memory of a device, or managed memory.</summary>
    public sealed unsafe class DeviceMemory : FerryMemory
    {
        internal DeviceMemory(ObjectHandle handle, int device, long size, long rowPitch)
            : base(handle, size, new NativePlace { Kind = PlaceKind.Device, Device = device })
        {
            Device = device;
            RowPitch = rowPitch;
        }

        public int Device { get; }
        /// <summary>Of AllocDevicePitched; else 0.</summary>
        public long RowPitch { get; }
        public ulong Address { get { using (new Hold(Handle)) return (ulong)(long)Handle.Pointer; } }

        /// <summary>Frees the memory after the work enqueued on the stream has completed, and does not wait.</summary>
        public void DisposeAfter(FerryStream stream) { Handle.EndAfter(stream, FreeDeferred); }

        static Status FreeDeferred(IntPtr instance, IntPtr address, IntPtr stream, ErrorInfo* error)
        {
            return Native.ferry_device_free_deferred(instance, (ulong)(long)address, stream, error);
        }
    }

    /// <summary>Host memory that the devices can access: allocated as pinned memory, or registered.</summary>
    public sealed unsafe class PinnedMemory : FerryMemory
    {
        readonly bool isRegistered;

        internal PinnedMemory(ObjectHandle handle, long size, bool isRegistered)
            : base(handle, size, new NativePlace { Kind = PlaceKind.Host })
        {
            this.isRegistered = isRegistered;
        }

        public IntPtr Address { get { return Pointer; } }

#if FERRY_HAS_SPAN
        /// <summary>The memory as elements. The span must not be used after Dispose, or while a copy writes the memory.
        /// The span does not prevent Dispose.</summary>
        public Span<T> AsSpan<T>() where T : struct
        {
            return MemoryMarshal.Cast<byte, T>(new Span<byte>((void*)Address, checked((int)Size)));
        }
#endif
        /// <summary>Copies an array into the memory, on this thread.</summary>
        public void Write(Array source, long offset = 0) { Move(source, offset, true); }

        /// <summary>Fills an array from the memory, on this thread.</summary>
        public void Read(Array destination, long offset = 0) { Move(destination, offset, false); }

        void Move(Array array, long offset, bool writes)
        {
            long size = Pins.SizeOf(array);
            if (offset < 0 || size > Size - offset) throw new ArgumentOutOfRangeException("offset");
            using (new Hold(Handle))
            {
                GCHandle pin = Pins.Pin(array);
                byte* managed = (byte*)Marshal.UnsafeAddrOfPinnedArrayElement(array, 0);
                byte* pinned = (byte*)Handle.Pointer + offset;
                Buffer.MemoryCopy(writes ? managed : pinned, writes ? pinned : managed, size, size);
                pin.Free();
            }
        }

        /// <summary>Frees the memory after the work enqueued on the stream has completed, and does not wait.</summary>
        public void DisposeAfter(FerryStream stream)
        {
            if (isRegistered) throw new InvalidOperationException("registered memory ends with Dispose");
            Handle.EndAfter(stream, Native.ferry_host_free_deferred);
        }
    }

    /// <summary>A CUDA array. Its width is in texels; x and the width of a copy are in bytes.</summary>
    public sealed unsafe class FerryArray : FerryObject
    {
        internal FerryArray(ObjectHandle handle, int device, ArrayDesc desc) : base(handle)
        {
            Device = device;
            Desc = desc;
        }

        public int Device { get; }
        public ArrayDesc Desc { get; }
        public Place Place
        {
            get
            {
                Place place = Place.CudaArray(Handle.Pointer, Device);
                place.Owner = Handle;
                return place;
            }
        }
        public Place At(long x, long y = 0, long z = 0) { return Place.At(x, y, z); }

        /// <summary>Ends the array after the work enqueued on the stream has completed. A later CreateArray
        /// may reuse it.</summary>
        public void DisposeAfter(FerryStream stream) { Handle.EndAfter(stream, Native.ferry_array_destroy_deferred); }
    }

    /// <summary>A mipmapped array. Each level is a place.</summary>
    public sealed unsafe class FerryMipmappedArray : FerryObject
    {
        readonly int device;

        internal FerryMipmappedArray(ObjectHandle handle, int device) : base(handle) { this.device = device; }

        public Place Level(int level)
        {
            using (new Hold(Handle))
            {
                IntPtr array;
                Calls.Check(Native.ferry_mipmapped_array_get_level(Handle.Instance.Pointer, Handle.Pointer,
                    (uint)Number.Of(level, "level"), &array, Calls.Error));
                Place place = Place.CudaArray(array, device);
                place.Owner = Handle;
                return place;
            }
        }

        public void DisposeAfter(FerryStream stream)
        {
            Handle.EndAfter(stream, Native.ferry_mipmapped_array_destroy_deferred);
        }
    }

    /// <summary>An open file. One end of a copy may be a file if the other end is device memory or an array. A copy on a
    /// stream requires a ticket or a task, which reports failures of the file. After such a failure, the work of the
    /// stream goes on. Disposing the file does not affect copies in flight.</summary>
    public sealed unsafe class FerryFile : FerryObject
    {
        internal FerryFile(ObjectHandle handle) : base(handle) { }

        /// <summary>The size of the file, now, and how it can be used.</summary>
        public FileInfo Info
        {
            get
            {
                FileInfo info = new FileInfo { StructSize = FileInfo.SizeOf };
                using (new Hold(Handle)) Calls.Check(Native.ferry_file_get_info(Handle.Pointer, &info, Calls.Error));
                return info;
            }
        }

        /// <summary>The bytes of the file from `offset` on.</summary>
        public Place At(long offset)
        {
            NativePlace native = new NativePlace
            {
                Kind = PlaceKind.File, File = Handle.Pointer, Address = Number.Of(offset, "offset")
            };
            return new Place { Native = native, Owner = Handle, Size = -1 };
        }

        /// <summary>Makes the file the source of pieces, and keeps it until the result is disposed. `file` may be
        /// null.</summary>
        internal static Hold SetSource(FerryFile file, InstanceHandle caller, PieceList* list)
        {
            if (file == null) return new Hold();
            Hold hold = new Hold(file.Handle, caller);
            list->SourceFile = file.Handle.Pointer;
            return hold;
        }
    }

    /// <summary>Memory of another API such as Vulkan. Its addresses and arrays end with it.</summary>
    public sealed unsafe class ExternalMemory : FerryObject
    {
        readonly int device;

        internal ExternalMemory(ObjectHandle handle, int device) : base(handle) { this.device = device; }

        /// <summary>A buffer, or a linear image, that was bound at `offset`.</summary>
        public Place At(long offset, long size)
        {
            using (new Hold(Handle))
            {
                ulong address;
                Calls.Check(Native.ferry_external_memory_get_address(Handle.Instance.Pointer, Handle.Pointer,
                    Number.Of(offset, "offset"), Number.Of(size, "size"), &address, Calls.Error));
                Place place = Place.Device(address, device, size);
                place.Owner = Handle;
                return place;
            }
        }

        /// <summary>An image in its optimal layout that was bound at `offset`.</summary>
        public FerryMipmappedArray CreateArray(long offset, ArrayDesc desc, int levels = 1)
        {
            using (new Hold(Handle))
            {
                IntPtr array;
                desc.StructSize = ArrayDesc.SizeOf;
                Calls.Check(Native.ferry_external_memory_create_array(Handle.Instance.Pointer, Handle.Pointer,
                    Number.Of(offset, "offset"), &desc, (uint)Number.Of(levels, "levels"), &array, Calls.Error));
                return new FerryMipmappedArray(new ObjectHandle(Handle.Instance, "FerryMipmappedArray", array,
                                                                Native.ferry_mipmapped_array_destroy, Handle), device);
            }
        }

        public void DisposeAfter(FerryStream stream)
        {
            Handle.EndAfter(stream, Native.ferry_external_memory_release_deferred);
        }
    }

    /// <summary>A semaphore or fence of another API: see FerryStream.Signal and Wait. Its work must be complete at
    /// Dispose.</summary>
    public sealed unsafe class ExternalSemaphore : FerryObject
    {
        internal ExternalSemaphore(ObjectHandle handle) : base(handle) { }

        public void DisposeAfter(FerryStream stream)
        {
            Handle.EndAfter(stream, Native.ferry_external_semaphore_release_deferred);
        }
    }

    // ---- Streams

    /// <summary>A CUDA stream: copies and fills on it run one after another, and the calls return before they are
    /// complete. Memory must live until then; disposing it waits. Managed arrays stay pinned until then by themselves,
    /// and must not be read or written.</summary>
    public sealed unsafe class FerryStream : FerryObject
    {
        internal FerryStream(ObjectHandle handle) : base(handle) { }

        IntPtr Instance { get { return Handle.Instance.Pointer; } }

        public void Copy(Place source, Place destination, long width, long height = 1, long depth = 1,
                         CopyOptions? options = null)
        {
            Copy(new CopyBox(source, destination, width, height, depth), options, false);
        }

        /// <summary>The task ends with the copy. It cannot be cancelled.</summary>
        public Task CopyAsync(Place source, Place destination, long width, long height = 1, long depth = 1,
                              CopyOptions? options = null)
        {
            using (FerryTicket ticket = CopyWithTicket(source, destination, width, height, depth, options))
                return ticket.WhenDone();
        }

        /// <summary>The ticket reports the copy's progress.</summary>
        public FerryTicket CopyWithTicket(Place source, Place destination, long width, long height = 1, long depth = 1,
                                          CopyOptions? options = null)
        {
            return Copy(new CopyBox(source, destination, width, height, depth), options, true);
        }

        FerryTicket Copy(CopyBox box, CopyOptions? options, bool wantsTicket)
        {
            NativeCopy copy;
            CopyOptions how;
            Uses uses = new Uses(Handle.Instance);
            using (new Hold(Handle))
            try
            {
                box.Lower(ref uses, &copy, -1);
                RefuseCapture(uses);
                IntPtr ticket = IntPtr.Zero;
                Status status = Native.ferry_copy_async(Instance, &copy, CopyOptions.Lower(options, &how),
                                                        Handle.Pointer, wantsTicket ? &ticket : null, Calls.Error);
                UnpinLater(ref uses, status);
                Calls.Check(status);
                return wantsTicket ? new FerryTicket(Handle.Instance, ticket) : null;
            }
            finally { uses.Dispose(); }
        }

        /// <summary>Enqueues a batch; its copies have no order among themselves.</summary>
        public void Copy(CopyBatch batch, CopyOptions? options = null) { Copy(batch, options, false); }

        public FerryTicket CopyWithTicket(CopyBatch batch, CopyOptions? options = null)
        {
            return Copy(batch, options, true);
        }

        FerryTicket Copy(CopyBatch batch, CopyOptions? options, bool wantsTicket)
        {
            CopyOptions how;
            Uses uses = new Uses(Handle.Instance);
            using (new Hold(Handle))
            lock (batch.Gate)
            fixed (NativeCopy* copies = batch.Natives)
            try
            {
                batch.Lower(ref uses, copies);
                RefuseCapture(uses);
                IntPtr ticket = IntPtr.Zero;
                Status status = Native.ferry_copy_batch_async(Instance, copies, (ulong)batch.Count,
                                                              CopyOptions.Lower(options, &how), Handle.Pointer,
                                                              wantsTicket ? &ticket : null, Calls.Error);
                UnpinLater(ref uses, status);
                Calls.Check(status);
                return wantsTicket ? new FerryTicket(Handle.Instance, ticket) : null;
            }
            finally { uses.Dispose(); }
        }

        /// <summary>Enqueues the first pieces of an array: the fastest form for thousands of pieces. Nothing keeps the
        /// memory or checks its bounds.</summary>
        public void CopyPieces(Piece[] pieces, int count, CopyOptions? options = null)
        {
            CopyPieces(pieces, count, options, null, null);
        }

        /// <summary>With a source file, the sources of the pieces are offsets in the file.</summary>
        public FerryTicket CopyPiecesWithTicket(Piece[] pieces, int count, CopyOptions? options = null,
                                                FerryFile sourceFile = null)
        {
            IntPtr ticket;
            CopyPieces(pieces, count, options, sourceFile, &ticket);
            return new FerryTicket(Handle.Instance, ticket);
        }

        void CopyPieces(Piece[] pieces, int count, CopyOptions? options, FerryFile sourceFile, IntPtr* ticket)
        {
            CopyOptions how;
            PieceList list;
            FerryInstance.CheckPieces(pieces, count);
            using (new Hold(Handle))
            fixed (Piece* first = pieces)
            {
                Native.ferry_piece_list_set(&list, first, (ulong)count);
                using (FerryFile.SetSource(sourceFile, Handle.Instance, &list))
                    Calls.Check(Native.ferry_copy_pieces_async(Instance, &list, CopyOptions.Lower(options, &how),
                                                               Handle.Pointer, ticket, Calls.Error));
            }
        }

        /// <summary>Repeats a pattern of 1, 2, 4, 8 or 16 bytes over a box of device, managed or pinned
        /// memory.</summary>
        public void Fill(Place destination, byte[] pattern, long width, long height = 1, long depth = 1,
                         CopyOptions? options = null)
        {
            using (new Hold(Handle))
                FerryInstance.Fill(Handle.Instance, Handle.Pointer, true, destination, pattern, width, height, depth,
                                   options);
        }

        public FerryTicket FillWithTicket(Place destination, byte[] pattern, long width, long height = 1,
                                          long depth = 1, CopyOptions? options = null)
        {
            IntPtr ticket;
            using (new Hold(Handle))
            {
                FerryInstance.Fill(Handle.Instance, Handle.Pointer, true, destination, pattern, width, height, depth,
                                   options, null, &ticket);
                return new FerryTicket(Handle.Instance, ticket);
            }
        }

        /// <summary>What Fill would do.</summary>
        public Explanation ExplainFill(Place destination, byte[] pattern, long width, long height = 1, long depth = 1,
                                       CopyOptions? options = null)
        {
            Explanation explanation = new Explanation { StructSize = Explanation.SizeOf };
            using (new Hold(Handle))
                FerryInstance.Fill(Handle.Instance, Handle.Pointer, true, destination, pattern, width, height, depth,
                                   options, &explanation);
            return explanation;
        }

        // A graph would use an array repeatedly, after it was unpinned. Tickets are rejected under capture.
        void RefuseCapture(Uses uses)
        {
            if (uses.HasPins) Native.ferry_ticket_release(NewTicket(), null);
        }

        IntPtr NewTicket()
        {
            IntPtr ticket;
            Calls.Check(Native.ferry_ticket_create(Instance, Handle.Pointer, &ticket, Calls.Error));
            return ticket;
        }

        // Transfers the pins to the watcher. After an error some of the copies may be in flight, except if ferry
        // rejected a copy and named its side. If waiting fails too, the arrays stay pinned forever.
        void UnpinLater(ref Uses uses, Status status)
        {
            if (!uses.HasPins || status != 0 && Calls.Error->Side != Side.None) return;
            IntPtr ticket = IntPtr.Zero;
            if (status == 0) status = Native.ferry_ticket_create(Instance, Handle.Pointer, &ticket, null);
            if (status == 0) Handle.Instance.Watcher.Watch(ticket, null, uses.TakePins(), false);
            else if (Native.ferry_stream_synchronize(Instance, Handle.Pointer, null) != 0) uses.TakePins();
        }

        /// <summary>Waits for all work so far.</summary>
        public void Synchronize()
        {
            using (new Hold(Handle))
                Calls.Check(Native.ferry_stream_synchronize(Instance, Handle.Pointer, Calls.Error));
        }

        /// <summary>True if all work so far is complete. Never waits.</summary>
        public bool IsIdle
        {
            get
            {
                using (new Hold(Handle))
                {
                    int done;
                    Calls.Check(Native.ferry_stream_query(Instance, Handle.Pointer, &done, Calls.Error));
                    return done != 0;
                }
            }
        }

        /// <summary>A task that ends with all work so far, within about a millisecond.</summary>
        public Task WhenDone()
        {
            using (new Hold(Handle)) return Handle.Instance.Watcher.Watch(NewTicket(), null, null, true);
        }

        /// <summary>A ticket for all work so far.</summary>
        public FerryTicket CreateTicket()
        {
            using (new Hold(Handle)) return new FerryTicket(Handle.Instance, NewTicket());
        }

        public void Record(FerryEvent @event)
        {
            using (new Hold(Handle)) using (new Hold(@event.Handle, Handle.Instance))
                Calls.Check(Native.ferry_event_record(Instance, @event.Handle.Pointer, Handle.Pointer, Calls.Error));
        }

        /// <summary>Later work waits for the event's last record.</summary>
        public void Wait(FerryEvent @event)
        {
            using (new Hold(Handle)) using (new Hold(@event.Handle, Handle.Instance))
                Calls.Check(Native.ferry_stream_wait_event(Instance, Handle.Pointer, @event.Handle.Pointer,
                    Calls.Error));
        }

        /// <summary>Signals a semaphore behind the work so far.</summary>
        public void Signal(ExternalSemaphore semaphore, ulong value = 0)
        {
            using (new Hold(Handle)) using (new Hold(semaphore.Handle, Handle.Instance))
                Calls.Check(Native.ferry_external_semaphore_signal_async(Instance, semaphore.Handle.Pointer, value,
                    Handle.Pointer, Calls.Error));
        }

        /// <summary>Later work waits for a semaphore.</summary>
        public void Wait(ExternalSemaphore semaphore, ulong value = 0, uint timeoutMilliseconds = uint.MaxValue)
        {
            using (new Hold(Handle)) using (new Hold(semaphore.Handle, Handle.Instance))
                Calls.Check(Native.ferry_external_semaphore_wait_async(Instance, semaphore.Handle.Pointer, value,
                    timeoutMilliseconds, Handle.Pointer, Calls.Error));
        }

        /// <summary>What Copy would do.</summary>
        public Explanation Explain(CopyBox box, CopyOptions? options = null)
        {
            NativeCopy copy;
            CopyOptions how;
            Uses uses = new Uses(Handle.Instance);
            using (new Hold(Handle))
            try
            {
                box.Lower(ref uses, &copy, -1);
                Explanation explanation = new Explanation { StructSize = Explanation.SizeOf };
                Calls.Check(Native.ferry_copy_explain_async(Instance, &copy, CopyOptions.Lower(options, &how),
                    Handle.Pointer, &explanation, Calls.Error));
                return explanation;
            }
            finally { uses.Dispose(); }
        }

        /// <summary>What Copy would do with a batch.</summary>
        public BatchExplanation Explain(CopyBatch batch, CopyOptions? options = null)
        {
            CopyOptions how;
            Uses uses = new Uses(Handle.Instance);
            using (new Hold(Handle))
            lock (batch.Gate)
            fixed (NativeCopy* copies = batch.Natives)
            try
            {
                batch.Lower(ref uses, copies);
                BatchExplanation explanation = new BatchExplanation { StructSize = BatchExplanation.SizeOf };
                Calls.Check(Native.ferry_copy_batch_explain_async(Instance, copies, (ulong)batch.Count,
                    CopyOptions.Lower(options, &how), Handle.Pointer, &explanation, Calls.Error));
                return explanation;
            }
            finally { uses.Dispose(); }
        }

        /// <summary>Checks and plans a batch for many launches on streams of this device. It keeps the objects of its
        /// places; it does not accept managed arrays: pin them with FerryInstance.Register.</summary>
        public PreparedBatch Prepare(CopyBatch batch, CopyOptions? options = null)
        {
            CopyOptions how;
            Uses uses = new Uses(Handle.Instance);
            using (new Hold(Handle))
            lock (batch.Gate)
            fixed (NativeCopy* copies = batch.Natives)
            try
            {
                batch.Lower(ref uses, copies);
                if (uses.HasPins) throw new ArgumentException("a prepared batch accepts no managed arrays", "batch");
                IntPtr prepared;
                Calls.Check(Native.ferry_prepared_create(Instance, copies, (ulong)batch.Count,
                    CopyOptions.Lower(options, &how), Handle.Pointer, &prepared, Calls.Error));
                CopyBox[] kept = new CopyBox[batch.Count];
                Array.Copy(batch.Boxes, kept, kept.Length);
                return new PreparedBatch(new ObjectHandle(Handle.Instance, "PreparedBatch", prepared,
                    (instance, one, error) => Native.ferry_prepared_destroy(one, error)), kept);
            }
            finally { uses.Dispose(); }
        }
    }

    /// <summary>A batch that was planned once: see FerryStream.Prepare.</summary>
    public sealed unsafe class PreparedBatch : FerryObject
    {
        readonly CopyBox[] boxes; // keeps the objects of the places from being abandoned

        internal PreparedBatch(ObjectHandle handle, CopyBox[] boxes) : base(handle) { this.boxes = boxes; }

        /// <summary>Of the options, a launch uses only the tag. Without options, it has the tag of Prepare.</summary>
        public void Launch(FerryStream stream, CopyOptions? options = null) { Launch(stream, options, null); }

        public FerryTicket LaunchWithTicket(FerryStream stream, CopyOptions? options = null)
        {
            IntPtr ticket;
            Launch(stream, options, &ticket);
            return new FerryTicket(Handle.Instance, ticket);
        }

        void Launch(FerryStream stream, CopyOptions? options, IntPtr* ticket)
        {
            CopyOptions how;
            Uses uses = new Uses(Handle.Instance);
            NativePlace unused;
            using (new Hold(Handle)) using (new Hold(stream.Handle, Handle.Instance))
            try
            {
                foreach (CopyBox box in boxes) // a disposed object is an exception, not a copy to freed memory
                {
                    uses.Use(box.Source, &unused);
                    uses.Use(box.Destination, &unused);
                }
                Calls.Check(Native.ferry_prepared_launch(Handle.Pointer, CopyOptions.Lower(options, &how),
                    stream.Handle.Pointer, ticket, Calls.Error));
            }
            finally { uses.Dispose(); }
        }
    }

    /// <summary>A point in a stream.</summary>
    public sealed unsafe class FerryEvent : FerryObject
    {
        internal FerryEvent(ObjectHandle handle) : base(handle) { }

        public void Synchronize()
        {
            using (new Hold(Handle))
                Calls.Check(Native.ferry_event_synchronize(Handle.Instance.Pointer, Handle.Pointer, Calls.Error));
        }

        public bool IsDone
        {
            get
            {
                using (new Hold(Handle))
                {
                    int done;
                    Calls.Check(Native.ferry_event_query(Handle.Instance.Pointer, Handle.Pointer, &done, Calls.Error));
                    return done != 0;
                }
            }
        }

        public float MillisecondsSince(FerryEvent start)
        {
            using (new Hold(Handle)) using (new Hold(start.Handle, Handle.Instance))
            {
                float time;
                Calls.Check(Native.ferry_event_elapsed_time(Handle.Instance.Pointer, start.Handle.Pointer,
                    Handle.Pointer, &time, Calls.Error));
                return time;
            }
        }
    }

    /// <summary>The progress of a copy, or of a stream up to some point. Disposing it changes nothing about the
    /// copy.</summary>
    public sealed unsafe class FerryTicket : FerryObject
    {
        internal FerryTicket(InstanceHandle instance, IntPtr ticket)
            : base(new ObjectHandle(instance, "FerryTicket", ticket,
                                    (unused, one, error) => Native.ferry_ticket_release(one, error)))
        {
        }

        public TicketInfo Info
        {
            get
            {
                using (new Hold(Handle))
                {
                    TicketInfo info = new TicketInfo { StructSize = TicketInfo.SizeOf };
                    Calls.Check(Native.ferry_ticket_get_info(Handle.Pointer, &info, Calls.Error));
                    return info;
                }
            }
        }

        /// <summary>True if the copy has ended, with success or not.</summary>
        public bool IsDone { get { return Info.Done != 0; } }

        /// <summary>Waits, and throws what ended the copy if it failed.</summary>
        public void Wait()
        {
            using (new Hold(Handle)) Calls.Check(Native.ferry_ticket_wait(Handle.Pointer, -1, Calls.Error));
        }

        /// <summary>Cancels copies of files: what has not begun is not transferred. Wait then throws, unless all bytes
        /// were transferred before.</summary>
        public void Cancel()
        {
            using (new Hold(Handle)) Calls.Check(Native.ferry_ticket_cancel(Handle.Pointer, Calls.Error));
        }

        /// <summary>A task that ends with the copy, within about a millisecond. The ticket may be disposed
        /// before.</summary>
        public Task WhenDone()
        {
            using (new Hold(Handle))
            {
                bool isHeld = false;
                Handle.DangerousAddRef(ref isHeld); // until the watcher is done with it
                return Handle.Instance.Watcher.Watch(Handle.Pointer, Handle, null, true);
            }
        }
    }

    // ---- The instance

    public delegate void NativeOptionsAction(ref NativeOptions options);

    /// <summary>How to open an instance. Zero and null are the defaults: the NVIDIA driver or an error.</summary>
    public sealed class FerryOptions
    {
        public Driver Driver;
        public Checks Checks;
        public Kernels Kernels;
        public Staging Staging;
        public uint StagingThreads;
        public ulong StagingBytes;
        public ulong DeferredBytes;
        public ulong MaxPinnedBytes;
        public ulong MaxDeviceBytes;
        public uint MaxThreads;
        /// <summary>The options of calls that have none.</summary>
        public CopyOptions? CopyOptions;
        public uint SoftwareDevices;
        public uint SoftwareQueues;
        public ulong SoftwareMemory;
        public SoftwareLinks SoftwareLinks;
        /// <summary>Receives one line at a time, during calls of ferry and on their thread. The function must not call
        /// ferry. Its exceptions are lost.</summary>
        public Action<LogLevel, string> Log;
#if NETCOREAPP
        /// <summary>Uses the program's own threads for pageable memory, which managed arrays are: runs the action once
        /// and soon on any thread, and returns true; or returns false. It runs on driver threads, so it must
        /// neither wait nor call ferry or the driver: add the action to a queue. Not on Mono, whose collector cannot
        /// stop such threads: they block its signals.</summary>
        public Func<Action, bool> Submit;
#endif
        /// <summary>Changes all other fields, last.</summary>
        public NativeOptionsAction Adjust;

        internal FerryOptions Clone() { return (FerryOptions)MemberwiseClone(); }
    }

    /// <summary>IL2CPP requires this attribute on functions that native code calls. Only its name matters.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    sealed class MonoPInvokeCallbackAttribute : Attribute
    {
        internal MonoPInvokeCallbackAttribute(Type type) { Type = type; }
        internal readonly Type Type;
    }

    /// <summary>The functions that ferry calls. The delegates are static, so they live as long as the program. They
    /// catch all exceptions.</summary>
    static unsafe class Callbacks
    {
        static readonly OptionsLog log = Log;

        /// <summary>Sets the callbacks, and returns what must live until the instance is closed.</summary>
        internal static GCHandle Set(ref NativeOptions native, FerryOptions options)
        {
            FerryOptions kept = options.Clone();
            GCHandle handle = GCHandle.Alloc(kept);
            if (kept.Log != null)
            {
                native.Log = Marshal.GetFunctionPointerForDelegate(log);
                native.LogUser = GCHandle.ToIntPtr(handle);
            }
#if NETCOREAPP
            if (kept.Submit != null)
            {
                native.Submit = Marshal.GetFunctionPointerForDelegate(submit);
                native.SubmitUser = GCHandle.ToIntPtr(handle);
            }
#endif
            return handle;
        }

        [MonoPInvokeCallback(typeof(OptionsLog))]
        static void Log(IntPtr user, LogLevel level, byte* message)
        {
            try { ((FerryOptions)GCHandle.FromIntPtr(user).Target).Log(level, Native.Text(message)); }
            catch (Exception) { }
        }

#if NETCOREAPP
        static readonly OptionsSubmit submit = Submit;
        static readonly ConcurrentDictionary<IntPtr, OptionsSubmitWork> works =
            new ConcurrentDictionary<IntPtr, OptionsSubmitWork>();

        static int Submit(IntPtr user, IntPtr work, IntPtr argument)
        {
            try
            {
                OptionsSubmitWork call = works.GetOrAdd(work, one => (OptionsSubmitWork)
                    Marshal.GetDelegateForFunctionPointer(one, typeof(OptionsSubmitWork)));
                return ((FerryOptions)GCHandle.FromIntPtr(user).Target).Submit(() => call(argument)) ? 1 : 0;
            }
            catch (Exception) { return 0; }
        }
#endif
    }

    /// <summary>One opened library. Any number of threads may use it at the same time. Dispose rejects further calls,
    /// waits for copies of managed arrays, frees all objects of the instance and closes it. If other threads are in a
    /// call, the last of these threads does so. Dispose the instance before a domain is unloaded.</summary>
    public sealed unsafe class FerryInstance : IDisposable
    {
        readonly InstanceHandle handle;

        FerryInstance(InstanceHandle handle) { this.handle = handle; }

        /// <summary>Of the library: major * 10000 + minor * 100 + patch.</summary>
        public static int LibraryVersion { get { return Native.ferry_version(); } }

        public static FerryInstance Open(FerryOptions options = null)
        {
            if (IntPtr.Size != 8) throw new PlatformNotSupportedException("ferry needs a 64-bit process");
            options = options ?? new FerryOptions();
            NativeOptions native = new NativeOptions
            {
                StructSize = NativeOptions.SizeOf, Driver = options.Driver, Checks = options.Checks,
                Kernels = options.Kernels, Staging = options.Staging, StagingThreads = options.StagingThreads,
                StagingBytes = options.StagingBytes, DeferredBytes = options.DeferredBytes,
                MaxPinnedBytes = options.MaxPinnedBytes, MaxDeviceBytes = options.MaxDeviceBytes,
                MaxThreads = options.MaxThreads
            };
            CopyOptions how;
            native.CopyOptions = CopyOptions.Lower(options.CopyOptions, &how);
            SoftwareOptions software = new SoftwareOptions
            {
                StructSize = SoftwareOptions.SizeOf, Devices = options.SoftwareDevices, Queues = options.SoftwareQueues,
                Memory = options.SoftwareMemory, Links = options.SoftwareLinks
            };
            native.DriverOptions = (IntPtr)(&software);
            GCHandle callbacks = Callbacks.Set(ref native, options);
            IntPtr instance = IntPtr.Zero;
            try
            {
                if (options.Adjust != null) options.Adjust(ref native);
                native.StructSize = NativeOptions.SizeOf;
                Calls.Check(Native.ferry_open(&native, &instance, Calls.Error));
            }
            finally { if (instance == IntPtr.Zero) callbacks.Free(); }
            return new FerryInstance(new InstanceHandle(instance, callbacks));
        }

        public void Dispose() { handle.Dispose(); }

        /// <summary>The ferry_instance, for functions of Native. It is valid until Dispose.</summary>
        public IntPtr Pointer { get { using (new Hold(handle)) return handle.Pointer; } }

        /// <summary>Frees objects that were never disposed and that the garbage collector has found. May wait for the
        /// device.</summary>
        public void FreeAbandoned() { using (new Hold(handle)) handle.FreeAbandoned(); }

        // ---- Devices and memory

        public Report Report
        {
            get
            {
                Report report = new Report { StructSize = Report.SizeOf };
                using (new Hold(handle))
                    Calls.Check(Native.ferry_instance_get_report(handle.Pointer, &report, Calls.Error));
                return report;
            }
        }

        public bool IsSoftware { get { return Report.Driver == Driver.Software; } }
        public int DeviceCount { get { return Report.DeviceCount; } }

        public DeviceInfo GetDevice(int device)
        {
            DeviceInfo info = new DeviceInfo { StructSize = DeviceInfo.SizeOf };
            using (new Hold(handle))
                Calls.Check(Native.ferry_device_get_info(handle.Pointer, device, &info, Calls.Error));
            return info;
        }

        /// <summary>The device that another API knows by this UUID of 16 bytes.</summary>
        public int FindDevice(byte[] uuid)
        {
            if (uuid == null || uuid.Length != 16) throw new ArgumentException("a UUID has 16 bytes", "uuid");
            int device;
            using (new Hold(handle))
            fixed (byte* bytes = uuid)
                Calls.Check(Native.ferry_device_find(handle.Pointer, bytes, null, &device, Calls.Error));
            return device;
        }

        // ---- Copies that wait

        /// <summary>Copies, and returns when the bytes have arrived.</summary>
        public void Copy(Place source, Place destination, long width, long height = 1, long depth = 1,
                         CopyOptions? options = null)
        {
            NativeCopy copy;
            CopyOptions how;
            Uses uses = new Uses(handle);
            using (new Hold(handle))
            try
            {
                new CopyBox(source, destination, width, height, depth).Lower(ref uses, &copy, -1);
                handle.Settle(Native.ferry_copy(handle.Pointer, &copy, CopyOptions.Lower(options, &how), Calls.Error));
            }
            finally { uses.Dispose(); }
        }

        public void Copy(CopyBatch batch, CopyOptions? options = null)
        {
            CopyOptions how;
            Uses uses = new Uses(handle);
            using (new Hold(handle))
            lock (batch.Gate)
            fixed (NativeCopy* copies = batch.Natives)
            try
            {
                batch.Lower(ref uses, copies);
                handle.Settle(Native.ferry_copy_batch(handle.Pointer, copies, (ulong)batch.Count,
                    CopyOptions.Lower(options, &how), Calls.Error));
            }
            finally { uses.Dispose(); }
        }

        /// <summary>Copies the first pieces of an array. Nothing keeps the memory or checks its bounds. With a source
        /// file, the sources of the pieces are offsets in the file.</summary>
        public void CopyPieces(Piece[] pieces, int count, CopyOptions? options = null, FerryFile sourceFile = null)
        {
            CopyOptions how;
            PieceList list;
            CheckPieces(pieces, count);
            using (new Hold(handle))
            fixed (Piece* first = pieces)
            {
                Native.ferry_piece_list_set(&list, first, (ulong)count);
                using (FerryFile.SetSource(sourceFile, handle, &list))
                    Calls.Check(Native.ferry_copy_pieces(handle.Pointer, &list, CopyOptions.Lower(options, &how),
                                                         Calls.Error));
            }
        }

        internal static void CheckPieces(Piece[] pieces, int count)
        {
            if (count < 0 || count > pieces.Length) throw new ArgumentOutOfRangeException("count");
        }

#if FERRY_HAS_SPAN
        /// <summary>Copies from a span, and returns when the bytes have arrived.</summary>
        public void Copy<T>(ReadOnlySpan<T> source, Place destination) where T : struct
        {
            ReadOnlySpan<byte> bytes = MemoryMarshal.AsBytes(source);
            fixed (byte* address = &MemoryMarshal.GetReference(bytes))
                Copy(Place.Host((IntPtr)address, bytes.Length), destination, bytes.Length);
        }

        /// <summary>Fills a span, and returns when the bytes have arrived.</summary>
        public void Copy<T>(Place source, Span<T> destination) where T : struct
        {
            Span<byte> bytes = MemoryMarshal.AsBytes(destination);
            fixed (byte* address = &MemoryMarshal.GetReference(bytes))
                Copy(source, Place.Host((IntPtr)address, bytes.Length), bytes.Length);
        }
#endif

        /// <summary>Repeats a pattern of 1, 2, 4, 8 or 16 bytes over a box of device, managed or pinned memory.
        /// </summary>
        public void Fill(Place destination, byte[] pattern, long width, long height = 1, long depth = 1,
                         CopyOptions? options = null)
        {
            using (new Hold(handle))
                Fill(handle, IntPtr.Zero, false, destination, pattern, width, height, depth, options);
        }

        /// <summary>What Fill would do.</summary>
        public Explanation ExplainFill(Place destination, byte[] pattern, long width, long height = 1, long depth = 1,
                                       CopyOptions? options = null)
        {
            Explanation explanation = new Explanation { StructSize = Explanation.SizeOf };
            using (new Hold(handle))
                Fill(handle, IntPtr.Zero, false, destination, pattern, width, height, depth, options,
                     &explanation);
            return explanation;
        }

        // With an explanation: fills nothing, and reports what it would do.
        internal static void Fill(InstanceHandle handle, IntPtr stream, bool isAsync, Place destination, byte[] pattern,
                                  long width, long height, long depth, CopyOptions? options,
                                  Explanation* explanation = null, IntPtr* ticket = null)
        {
            CopyOptions storage;
            CopyOptions* how = CopyOptions.Lower(options, &storage);
            if (pattern.Length > 16) throw new ArgumentException("a pattern has at most 16 bytes", "pattern");
            Uses uses = new Uses(handle);
            try
            {
                NativeFill fill = new NativeFill { PatternSize = (uint)pattern.Length };
                for (int i = 0; i < pattern.Length; i++) fill.Pattern[i] = pattern[i];
                NativeCopy box = new NativeCopy();
                box.Width = fill.Width = Number.Of(width, "width");
                box.Height = fill.Height = Number.Of(height, "height");
                box.Depth = fill.Depth = Number.Of(depth, "depth");
                destination.CheckBounds(box, Side.Destination, 0);
                uses.Use(destination, &fill.Destination);
                IntPtr instance = handle.Pointer;
                if (isAsync && explanation == null && uses.HasPins) // it would be unpinned before it is filled
                {
                    ErrorInfo error = FerryException.NewInfo();
                    error.Status = Status.Kind;
                    error.Side = Side.Destination;
                    error.Field = Field.Kind;
                    throw new FerryException(error);
                }
                Calls.Check(
                    explanation == null
                        ? isAsync ? Native.ferry_fill_async(instance, &fill, how, stream, ticket, Calls.Error)
                                  : Native.ferry_fill(instance, &fill, how, Calls.Error)
                    : isAsync ? Native.ferry_fill_explain_async(instance, &fill, how, stream, explanation, Calls.Error)
                              : Native.ferry_fill_explain(instance, &fill, how, explanation, Calls.Error));
            }
            finally { uses.Dispose(); }
        }

        /// <summary>What Copy would do.</summary>
        public Explanation Explain(CopyBox box, CopyOptions? options = null)
        {
            NativeCopy copy;
            CopyOptions how;
            Uses uses = new Uses(handle);
            using (new Hold(handle))
            try
            {
                box.Lower(ref uses, &copy, -1);
                Explanation explanation = new Explanation { StructSize = Explanation.SizeOf };
                Calls.Check(Native.ferry_copy_explain(handle.Pointer, &copy, CopyOptions.Lower(options, &how),
                    &explanation, Calls.Error));
                return explanation;
            }
            finally { uses.Dispose(); }
        }

        // ---- Objects

        public DeviceMemory AllocDevice(long size, int device = 0)
        {
            using (new Hold(handle))
            {
                ulong address = 0;
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_device_alloc(handle.Pointer, device, Number.Of(size, "size"), &address,
                    Calls.Error));
                return NewMemory(address, device, size, 0);
            }
        }

        /// <summary>Rows of `width` bytes; RowPitch is the distance between them.</summary>
        public DeviceMemory AllocDevicePitched(long width, long height, int device = 0, int elementSize = 0)
        {
            using (new Hold(handle))
            {
                ulong address = 0, pitch = 0;
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_device_alloc_pitched(handle.Pointer, device, Number.Of(width, "width"),
                    Number.Of(height, "height"), (uint)Number.Of(elementSize, "elementSize"), &address, &pitch,
                    Calls.Error));
                return NewMemory(address, device, (long)pitch * height, (long)pitch);
            }
        }

        /// <summary>One address for the host and all devices.</summary>
        public DeviceMemory AllocManaged(long size, int device = 0)
        {
            using (new Hold(handle))
            {
                ulong address = 0;
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_managed_alloc(handle.Pointer, device, Number.Of(size, "size"), &address,
                    Calls.Error));
                return NewMemory(address, device, size, 0);
            }
        }

        DeviceMemory NewMemory(ulong address, int device, long size, long pitch)
        {
            ObjectHandle made = new ObjectHandle(handle, "DeviceMemory", (IntPtr)(long)address,
                (owner, one, error) => Native.ferry_device_free(owner, (ulong)(long)one, error));
            return new DeviceMemory(made, device, size, pitch);
        }

        public PinnedMemory AllocPinned(long size, HostOptions options = default(HostOptions))
        {
            using (new Hold(handle))
            {
                HostBlock block = new HostBlock { StructSize = HostBlock.SizeOf };
                options.StructSize = HostOptions.SizeOf;
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_host_alloc(handle.Pointer, Number.Of(size, "size"), &options, &block,
                    Calls.Error));
                return new PinnedMemory(new ObjectHandle(handle, "PinnedMemory", block.Address, Native.ferry_host_free),
                    (long)block.Size, false);
            }
        }

        /// <summary>Pins an array in place until Dispose, for the collector and for the devices. Copies of it need no
        /// staging.</summary>
        public PinnedMemory Register(Array array)
        {
            long size = Pins.SizeOf(array);
            GCHandle pin = Pins.Pin(array);
            try { return Register(Marshal.UnsafeAddrOfPinnedArrayElement(array, 0), size, () => pin.Free()); }
            catch
            {
                pin.Free();
                throw;
            }
        }

        /// <summary>Pins the caller's memory in place until Dispose. It must stay mapped until then.</summary>
        public PinnedMemory Register(IntPtr address, long size) { return Register(address, size, () => { }); }

        PinnedMemory Register(IntPtr address, long size, Action unpin)
        {
            using (new Hold(handle))
            {
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_host_register(handle.Pointer, address, Number.Of(size, "size"), 0,
                    Calls.Error));
                return new PinnedMemory(new ObjectHandle(handle, "PinnedMemory", address, (instance, one, error) =>
                {
                    Status status = Native.ferry_host_unregister(instance, one, error);
                    unpin();
                    return status;
                }), size, true);
            }
        }

        /// <summary>Width, height and depth in texels; height 0 is a 1D array, depth 0 a 1D or 2D array.</summary>
        public FerryArray CreateArray(ArrayFormat format, int channels, long width, long height = 0, long depth = 0,
                                      ArrayFlags flags = ArrayFlags.None, int device = 0)
        {
            using (new Hold(handle))
            {
                IntPtr array = IntPtr.Zero;
                ArrayDesc desc = NewArrayDesc(format, channels, width, height, depth, flags);
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_array_create(handle.Pointer, device, &desc, &array, Calls.Error));
                return new FerryArray(new ObjectHandle(handle, "FerryArray", array, Native.ferry_array_destroy), device,
                                      desc);
            }
        }

        public FerryMipmappedArray CreateMipmappedArray(ArrayFormat format, int channels, long width, long height,
                                                        long depth = 0, int levels = 0,
                                                        ArrayFlags flags = ArrayFlags.None, int device = 0)
        {
            using (new Hold(handle))
            {
                IntPtr array = IntPtr.Zero;
                ArrayDesc desc = NewArrayDesc(format, channels, width, height, depth, flags);
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_mipmapped_array_create(handle.Pointer, device, &desc,
                    (uint)Number.Of(levels, "levels"), &array, Calls.Error));
                return new FerryMipmappedArray(new ObjectHandle(handle, "FerryMipmappedArray", array,
                                                                Native.ferry_mipmapped_array_destroy), device);
            }
        }

        public static ArrayDesc NewArrayDesc(ArrayFormat format, int channels, long width, long height = 0,
                                             long depth = 0, ArrayFlags flags = ArrayFlags.None)
        {
            return new ArrayDesc
            {
                StructSize = ArrayDesc.SizeOf, Format = format, Flags = flags,
                Channels = (uint)Number.Of(channels, "channels"), Width = Number.Of(width, "width"),
                Height = Number.Of(height, "height"), Depth = Number.Of(depth, "depth")
            };
        }

        public FerryStream CreateStream(int device = 0, StreamFlags flags = StreamFlags.NonBlocking, int priority = 0)
        {
            using (new Hold(handle))
            {
                IntPtr stream = IntPtr.Zero;
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_stream_create(handle.Pointer, device, flags, priority, &stream, Calls.Error));
                return new FerryStream(new ObjectHandle(handle, "FerryStream", stream, Native.ferry_stream_destroy));
            }
        }

        /// <summary>The program's CUstream or cudaStream_t, which the program continues to own. The default streams are
        /// rejected, because their context depends on the call.</summary>
        public FerryStream WrapStream(IntPtr stream)
        {
            if ((ulong)(long)stream <= Constants.DefaultStreamPerThread)
                throw new ArgumentException("a default stream", "stream");
            using (new Hold(handle)) return new FerryStream(new ObjectHandle(handle, "FerryStream", stream, null));
        }

        public FerryEvent CreateEvent(int device = 0, EventFlags flags = EventFlags.None)
        {
            using (new Hold(handle))
            {
                IntPtr made = IntPtr.Zero;
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_event_create(handle.Pointer, device, flags, &made, Calls.Error));
                return new FerryEvent(new ObjectHandle(handle, "FerryEvent", made, Native.ferry_event_destroy));
            }
        }

        /// <summary>Opens the file at `path`. The default options open it to read.</summary>
        public FerryFile OpenFile(string path, FileOptions options = default(FileOptions))
        {
            if (path.IndexOf('\0') >= 0) throw new ArgumentException("the path contains a zero", "path");
            using (new Hold(handle))
            fixed (byte* name = Encoding.UTF8.GetBytes(path + "\0"))
            {
                IntPtr file = IntPtr.Zero;
                options.StructSize = FileOptions.SizeOf;
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_file_open(handle.Pointer, name, &options, &file, Calls.Error));
                return NewFile(file);
            }
        }

        /// <summary>Opens a file of the program, such as FileStream.SafeFileHandle. The default options open it with the
        /// same access. The program may close its file, whose position never moves.</summary>
        public FerryFile OpenFile(SafeFileHandle osHandle, FileOptions options = default(FileOptions))
        {
            bool isHeld = false;
            using (new Hold(handle))
            try
            {
                IntPtr file = IntPtr.Zero;
                osHandle.DangerousAddRef(ref isHeld);
                options.StructSize = FileOptions.SizeOf;
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_file_open_descriptor(handle.Pointer, (long)osHandle.DangerousGetHandle(),
                    &options, &file, Calls.Error));
                return NewFile(file);
            }
            finally { if (isHeld) osHandle.DangerousRelease(); }
        }

        FerryFile NewFile(IntPtr file)
        {
            return new FerryFile(new ObjectHandle(handle, "FerryFile", file, (instance, one, error) =>
            {
                Native.ferry_file_close(one);
                return Status.Success;
            }));
        }

        /// <summary>Imports memory of another API. After success a file descriptor is closed.</summary>
        public ExternalMemory ImportMemory(ExternalMemoryType type, long osHandle, long size, int device = 0,
                                           ExternalFlags flags = ExternalFlags.None)
        {
            using (new Hold(handle))
            {
                IntPtr memory = IntPtr.Zero;
                ExternalMemoryDesc desc = new ExternalMemoryDesc
                {
                    StructSize = ExternalMemoryDesc.SizeOf, Device = device, HandleType = type, Handle = osHandle,
                    Flags = flags, Size = Number.Of(size, "size")
                };
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_external_memory_import(handle.Pointer, &desc, &memory, Calls.Error));
                return new ExternalMemory(new ObjectHandle(handle, "ExternalMemory", memory,
                                                           Native.ferry_external_memory_release), device);
            }
        }

        /// <summary>Imports a semaphore or fence of another API. After success a file descriptor is closed.</summary>
        public ExternalSemaphore ImportSemaphore(ExternalSemaphoreType type, long osHandle, int device = 0)
        {
            using (new Hold(handle))
            {
                IntPtr semaphore = IntPtr.Zero;
                ExternalSemaphoreDesc desc = new ExternalSemaphoreDesc
                {
                    StructSize = ExternalSemaphoreDesc.SizeOf, Device = device, HandleType = type, Handle = osHandle
                };
                handle.FreeAbandoned();
                Calls.Check(Native.ferry_external_semaphore_import(handle.Pointer, &desc, &semaphore, Calls.Error));
                return new ExternalSemaphore(new ObjectHandle(handle, "ExternalSemaphore", semaphore,
                                                              Native.ferry_external_semaphore_release));
            }
        }

        // ---- Upkeep

        /// <summary>Waits for all work in ferry's context of the device.</summary>
        public void Synchronize(int device = 0)
        {
            using (new Hold(handle))
                Calls.Check(Native.ferry_context_synchronize(handle.Pointer, device, IntPtr.Zero, Calls.Error));
        }

        /// <summary>What DisposeAfter keeps; by default on all devices and in the host's memory.</summary>
        public DeferredInfo GetDeferred(int device = Constants.DeviceUnknown)
        {
            DeferredInfo info = new DeferredInfo { StructSize = DeferredInfo.SizeOf };
            using (new Hold(handle))
                Calls.Check(Native.ferry_deferred_get_info(handle.Pointer, device, &info, Calls.Error));
            return info;
        }

        /// <summary>Frees what DisposeAfter keeps and streams have completed. Waits for running work.</summary>
        public void TrimDeferred(int device = Constants.DeviceUnknown, long keep = 0)
        {
            using (new Hold(handle))
                Calls.Check(Native.ferry_deferred_trim(handle.Pointer, device, Number.Of(keep, "keep"), Calls.Error));
        }

        /// <summary>Starts the threads and pins the memory that the first pageable copy would wait for.</summary>
        public void PrepareStaging(int device = 0)
        {
            using (new Hold(handle)) Calls.Check(Native.ferry_staging_prepare(handle.Pointer, device, Calls.Error));
        }
    }
}
