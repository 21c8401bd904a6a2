// Copies in flight: pins, tickets, tasks, events, threads and callbacks.
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;
using Ferry;

static class StreamTests
{
    const int Size = 1 << 16;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Upload(FerryStream stream, DeviceMemory memory, int count, List<WeakReference> sent, bool inBatch)
    {
        CopyBatch batch = new CopyBatch();
        for (int i = 0; i < count; i++)
        {
            byte[] bytes = Test.Pattern(Size, i);
            sent.Add(new WeakReference(bytes));
            if (inBatch) batch.Add(bytes, memory.At(i * Size), Size);
            else stream.Copy(bytes, memory.At(i * Size), Size);
        }
        if (inBatch) stream.Copy(batch);
    }

    static int CountAlive(List<WeakReference> references)
    {
        Test.CollectGarbage();
        return references.FindAll(one => one.IsAlive).Count;
    }

    static void KeepsArraysUntilCopied(bool inBatch)
    {
        const int count = 20;
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(count * Size))
        {
            List<WeakReference> sent = new List<WeakReference>();
            using (new Gate(ferry, stream))
            {
                Thread other = new Thread(() => Upload(stream, memory, count, sent, inBatch));
                other.Start();
                other.Join();
                for (int i = 0; i < 100; i++) new byte[Size].Initialize(); // would overwrite a freed array
                Test.Equal(CountAlive(sent), count, "arrays while the stream is blocked");
            }
            stream.Synchronize();
            for (int i = 0; i < count; i++)
                Test.Same(Test.Download(ferry, memory.At(i * Size), Size), Test.Pattern(Size, i), "array " + i);
            Test.That(Test.Eventually(() => CountAlive(sent) < count / 2), "the arrays are unpinned");
        }
    }

    public static void a_managed_array_lives_and_stays_until_its_copy_is_complete() { KeepsArraysUntilCopied(false); }
    public static void managed_arrays_of_a_batch_live_and_stay_until_it_is_complete() { KeepsArraysUntilCopied(true); }

    public static void copies_survive_a_collector_that_moves_everything_else()
    {
        using (FerryInstance ferry = Test.Open())
        {
            bool stop = false;
            Thread collector = new Thread(() =>
            {
                List<byte[]> garbage = new List<byte[]>();
                while (!Volatile.Read(ref stop))
                {
                    for (int i = 0; i < 200; i++) garbage.Add(new byte[1000 + i]);
                    if (garbage.Count > 2000) garbage.RemoveRange(0, 1500);
                    GC.Collect();
                }
            });
            collector.Start();
            List<Thread> threads = new List<Thread>();
            List<Exception> errors = new List<Exception>();
            for (int t = 0; t < 4; t++)
            {
                int seed = 1000 * t;
                threads.Add(new Thread(() =>
                {
                    try
                    {
                        using (FerryStream stream = ferry.CreateStream())
                        using (DeviceMemory memory = ferry.AllocDevice(Size))
                            for (int i = 0; i < 40; i++)
                            {
                                int size = 1 + (seed + i) * 7919 % Size;
                                byte[] back = new byte[size];
                                stream.Copy(Test.Pattern(size, seed + i), memory, size);
                                stream.CopyAsync(memory, back, size).Wait();
                                Test.Same(back, Test.Pattern(size, seed + i), "thread " + seed + ", copy " + i);
                            }
                    }
                    catch (Exception error) { lock (errors) errors.Add(error); }
                }));
            }
            threads.ForEach(thread => thread.Start());
            threads.ForEach(thread => thread.Join());
            stop = true;
            collector.Join();
            Test.That(errors.Count == 0, string.Join("; ", errors));
        }
    }

    public static void copies_between_memory_of_ferrys_make_no_garbage()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        using (PinnedMemory pinned = ferry.AllocPinned(Size))
        using (FerryArray array = ferry.CreateArray(ArrayFormat.Uint8, 1, 256, 256))
        {
            CopyBatch batch = new CopyBatch();
            long before = 0;
            for (int i = 0; i < 2100; i++)
            {
                if (i == 100) before = GC.GetAllocatedBytesForCurrentThread(); // what is made once has been made
                stream.Copy(pinned, memory, 4096);
                stream.Copy(memory, ((Place)array).At(0, 3), 256, 2);
                batch.Clear();
                batch.Add(pinned, memory.At(8192), 64);
                batch.Add(pinned.At(64), memory.At(16384), 64);
                stream.Copy(batch);
                if (i % 50 == 0) stream.Synchronize();
            }
            long grown = GC.GetAllocatedBytesForCurrentThread() - before;
            Test.That(grown < 2000 * 24 / 2, grown + " bytes for 2000 rounds");
        }
    }

    public static void a_ticket_reports_progress()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        {
            FerryTicket ticket, later;
            using (new Gate(ferry, stream))
            {
                ticket = stream.CopyWithTicket(new byte[Size], memory, Size);
                later = stream.CreateTicket();
                Test.That(!ticket.IsDone && !later.IsDone && !stream.IsIdle, "the stream is blocked");
                Test.Equal(ticket.Info.BytesTotal, (ulong)Size, "total");
            }
            ticket.Wait();
            Test.Equal(ticket.Info.BytesDone, (ulong)Size, "done");
            Test.Equal(ticket.Info.Status, Status.Success, "status");
            later.Wait();
            Test.That(later.IsDone && stream.IsIdle, "done");
            later.Dispose();
            ticket.Dispose();
        }
    }

    static async Task<int> UploadAndWait(FerryInstance ferry, FerryStream stream, DeviceMemory memory)
    {
        byte[] sent = Test.Pattern(Size, 8), back = new byte[Size];
        await stream.CopyAsync(sent, memory, Size);
        stream.Copy(memory, back, Size);
        await stream.WhenDone();
        Test.Same(back, sent, "bytes");
        using (FerryTicket ticket = stream.CopyWithTicket(memory, back, Size)) await ticket.WhenDone();
        Test.That(Thread.CurrentThread.Name != "ferry watcher", "a continuation runs elsewhere");
        stream.Synchronize(); // and may call ferry
        return 1;
    }

    public static void copies_are_awaited()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        {
            Test.Equal(UploadAndWait(ferry, stream, memory).Result, 1, "result");
            Task held;
            using (new Gate(ferry, stream))
            {
                held = stream.WhenDone();
                Thread.Sleep(5);
                Test.That(!held.IsCompleted, "the stream is blocked");
            }
            Test.That(held.Wait(5000), "the task ends");
        }
    }

    public static void a_continuation_may_close_the_instance()
    {
        FerryInstance ferry = Test.Open();
        Task closed = ferry.CreateStream().WhenDone().ContinueWith(task => ferry.Dispose());
        Test.That(closed.Wait(5000), "closed");
        Test.Throws<ObjectDisposedException>(() => ferry.AllocDevice(1));
    }

    public static void a_refused_copy_leaves_its_arrays_unpinned()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        {
            List<WeakReference> sent = new List<WeakReference>();
            Thread other = new Thread(() =>
            {
                for (int i = 0; i < 20; i++)
                {
                    byte[] bytes = new byte[Size];
                    sent.Add(new WeakReference(bytes));
                    Test.Throws<FerryException>(() => stream.Copy(bytes, ((Place)memory).Pitched(1), 100, 2));
                }
            });
            other.Start();
            other.Join();
            Test.That(CountAlive(sent) < 10, "the arrays are unpinned");
        }
    }

    delegate int BeginCapture(IntPtr stream, int mode);
    unsafe delegate int EndCapture(IntPtr stream, IntPtr* graph);

    public static unsafe void a_graph_takes_no_managed_arrays()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        using (PinnedMemory pinned = ferry.AllocPinned(Size))
        {
            CopyBatch batch = new CopyBatch();
            batch.Add(new byte[Size], memory, Size);
            Test.Equal(Native.ferry_context_push(ferry.Pointer, 0, IntPtr.Zero, null), Status.Success,
                       "ferry_context_push");
            Test.Equal(Get<BeginCapture>(ferry, "cuStreamBeginCapture")(stream.Pointer, 0), 0, "cuStreamBeginCapture");
            byte[] sent = new byte[Size];
            Test.Equal(Test.Throws<FerryException>(() => stream.Copy(sent, memory, Size)).Status,
                       Status.Capture, "a copy");
            Test.Equal(Test.Throws<FerryException>(() => stream.Copy(batch)).Status, Status.Capture, "a batch");
            stream.Copy(pinned, memory, Size);
            IntPtr graph;
            Test.Equal(Get<EndCapture>(ferry, "cuStreamEndCapture")(stream.Pointer, &graph), 0, "cuStreamEndCapture");
            Native.ferry_context_pop(ferry.Pointer, null, null);
        }
    }

    static unsafe T Get<T>(FerryInstance ferry, string name) where T : class
    {
        byte[] text = System.Text.Encoding.ASCII.GetBytes(name + "\0");
        fixed (byte* bytes = text)
            return (T)(object)Marshal.GetDelegateForFunctionPointer(
                Native.ferry_instance_get_proc(ferry.Pointer, bytes, 12000), typeof(T));
    }

    public static void a_fill_on_a_stream_takes_registered_memory_but_no_array()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        {
            byte[] bytes = new byte[1 << 16];
            Test.Equal(Test.Throws<FerryException>(() => stream.Fill(bytes, new byte[] { 7 }, 16)).Status, Status.Kind,
                       "pageable");
            using (PinnedMemory registered = ferry.Register(bytes))
            {
                // The fill would go on after the array was unpinned.
                FerryException error = Test.Throws<FerryException>(() => stream.Fill(bytes, new byte[] { 7 }, 16));
                Test.Equal(error.Status, Status.Kind, "status");
                Test.Equal(error.Side, Side.Destination, "side");
                stream.Fill(registered, new byte[] { 7 }, 1 << 16);
                stream.Synchronize();
                Test.Equal(bytes[(1 << 16) - 1], (byte)7, "last byte");
                ferry.Fill(bytes, new byte[] { 8 }, 1 << 16);
                Test.Equal(bytes[(1 << 16) - 1], (byte)8, "last byte");
            }
        }
    }

    public static void events_order_streams_and_measure_time()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream first = ferry.CreateStream(), second = ferry.CreateStream())
        using (FerryEvent start = ferry.CreateEvent(), end = ferry.CreateEvent())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        {
            byte[] back = new byte[Size];
            using (new Gate(ferry, first))
            {
                first.Record(start);
                first.Fill(memory, new byte[] { 9 }, Size);
                first.Record(end);
                second.Wait(end);
                second.Copy(memory, back, Size);
                Test.That(!end.IsDone, "held back");
            }
            second.Synchronize();
            Test.Equal(back[Size - 1], (byte)9, "byte");
            Test.That(end.IsDone && end.MillisecondsSince(start) >= 0, "time");
            end.Synchronize();
        }
    }

    public static void a_semaphore_of_another_api_orders_streams()
    {
        using (FerryInstance ferry = Test.Open(options => options.Staging = Staging.AtOpen))
        using (FerryStream first = ferry.CreateStream(), second = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        {
            ExternalSemaphore timeline = ferry.ImportSemaphore(ExternalSemaphoreType.TimelineFd, Test.NewFile(4096));
            byte[] back = new byte[Size];
            second.Wait(timeline, 5);
            second.Copy(memory, back, Size);
            Task copied = second.WhenDone();
            first.Signal(timeline, 4);
            first.Fill(memory, new byte[] { 9 }, Size);
            first.Synchronize();
            Test.That(!copied.IsCompleted, "the stream waits");
            first.Signal(timeline, 5);
            Test.That(copied.Wait(5000), "the stream goes on");
            Test.Equal(back[Size - 1], (byte)9, "byte");
            timeline.DisposeAfter(second);
            Test.Throws<ObjectDisposedException>(() => first.Signal(timeline, 6));
        }
    }

    public static void a_prepared_batch_is_launched_again_and_holds_its_objects()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        {
            PinnedMemory pinned = ferry.AllocPinned(Size);
            CopyBatch batch = new CopyBatch();
            for (int i = 0; i < 64; i++) batch.Add(pinned.At(i * 1024), memory.At((63 - i) * 1024), 1024);
            using (PreparedBatch prepared = stream.Prepare(batch))
            {
                for (int round = 0; round < 3; round++)
                {
                    byte[] sent = Test.Pattern(Size, round);
                    pinned.Write(sent);
                    prepared.Launch(stream);
                    stream.Synchronize();
                    byte[] back = Test.Download(ferry, memory, Size);
                    for (int i = 0; i < Size; i++)
                        Test.Equal(back[(63 - i / 1024) * 1024 + i % 1024], sent[i], "byte " + i);
                }
                pinned.Dispose();
                Test.Throws<ObjectDisposedException>(() => prepared.Launch(stream));
            }
            batch.Clear();
            batch.Add(new byte[16], memory, 16);
            Test.Throws<ArgumentException>(() => stream.Prepare(batch));
        }
    }

    public static void a_stream_of_the_programs_stays_its_own()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream own = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Size))
        {
            using (FerryStream wrapped = ferry.WrapStream(own.Pointer))
                wrapped.CopyAsync(new byte[Size], memory, Size).Wait();
            own.Synchronize();
            foreach (int number in new[] { 0, 1, 2 })
                Test.Throws<ArgumentException>(() => ferry.WrapStream((IntPtr)number));
        }
    }

    public static void the_log_receives_lines_and_its_exceptions_are_lost()
    {
        List<string> lines = new List<string>();
        FerryOptions options = new FerryOptions { Driver = Driver.Auto };
        options.Log = (level, line) =>
        {
            lock (lines) lines.Add(level + " " + line);
            throw new Exception("from the log");
        };
        using (FerryInstance ferry = FerryInstance.Open(options))
            if (!ferry.IsSoftware) throw new Skipped("the NVIDIA driver has nothing to log");
        Test.That(lines.Count > 0 && lines[0].Contains("driver"), string.Join("; ", lines));
    }

#if NETCOREAPP
    public static void the_programs_threads_move_managed_arrays()
    {
        int asked = 0;
        using (FerryInstance ferry = Test.Open(options => options.Submit = work =>
        {
            Interlocked.Increment(ref asked);
            new Thread(() => work()).Start();
            return true;
        }))
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(4 << 20))
        {
            byte[] sent = Test.Pattern(4 << 20, 3), back = new byte[4 << 20];
            stream.Copy(sent, memory, 4 << 20);
            stream.CopyAsync(memory, back, 4 << 20).Wait();
            Test.Same(back, sent, "bytes");
        }
        Test.That(asked > 0, "submit was called");
    }
#endif

    public static void an_instance_that_cannot_open_says_why()
    {
        FerryException error = Test.Throws<FerryException>(() => Test.Open(options => options.SoftwareDevices = 1000));
        Test.Equal(error.Side, Side.DriverOptions, "side");
        Test.Equal(error.Field, Field.Devices, "field");
        Test.Equal(error.Numbers, Numbers.UpTo, "numbers");
        Test.Equal(error.Value, 1000ul, "value");
        error = Test.Throws<FerryException>(() => Test.Open(options => options.Adjust =
            (ref NativeOptions native) => native.StagingNiceness = 1));
        Test.Equal(error.Field, Field.StagingNiceness, "field");
    }
}
