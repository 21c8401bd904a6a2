// What ends when: dispose, finalizers, closing, domains; and what a disposed object answers.
using System;
using System.Collections.Generic;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;
using Ferry;

static unsafe class LifetimeTests
{
    static MemoryKind KindAt(FerryInstance ferry, ulong address)
    {
        AddressInfo info = new AddressInfo { StructSize = AddressInfo.SizeOf };
        Test.Equal(Native.ferry_address_get_info(ferry.Pointer, address, &info, null), Status.Success,
                   "ferry_address_get_info");
        return info.Memory;
    }

    public static void disposing_frees_once()
    {
        using (FerryInstance ferry = Test.Open())
        {
            DeviceMemory memory = ferry.AllocDevice(4096);
            PinnedMemory pinned = ferry.AllocPinned(4096);
            ulong address = memory.Address, host = (ulong)(long)pinned.Address;
            Test.Equal(KindAt(ferry, address), MemoryKind.Device, "kind");
            Test.Equal(KindAt(ferry, host), MemoryKind.Pinned, "kind");
            memory.Dispose();
            pinned.Dispose();
            Test.Equal(KindAt(ferry, address), MemoryKind.Pageable, "kind");
            Test.Equal(KindAt(ferry, host), MemoryKind.Pageable, "kind");
            using (DeviceMemory next = ferry.AllocDevice(4096)) // may have the same address
            {
                ulong reused = next.Address;
                memory.Dispose();
                pinned.Dispose();
                Test.Equal(KindAt(ferry, reused), MemoryKind.Device, "kind");
            }
        }
    }

    public static void a_disposed_object_is_named()
    {
        using (FerryInstance ferry = Test.Open())
        {
            DeviceMemory memory = ferry.AllocDevice(4096);
            FerryStream stream = ferry.CreateStream();
            FerryEvent passed = ferry.CreateEvent();
            FerryTicket ticket = stream.CreateTicket();
            FerryArray array = ferry.CreateArray(ArrayFormat.Uint8, 1, 64);
            Place part = memory.At(16);
            foreach (IDisposable one in new IDisposable[] { memory, stream, passed, ticket, array }) one.Dispose();
            byte[] bytes = new byte[64];
            Action<string, Action> check = (name, action) =>
                Test.Equal(Test.Throws<ObjectDisposedException>(action).ObjectName, name, "name");
            check("DeviceMemory", () => ferry.Copy(bytes, memory, 64));
            check("DeviceMemory", () => ferry.Copy(part, bytes, 64));
            check("DeviceMemory", () => memory.Address.ToString());
            check("DeviceMemory", () => ferry.Fill(memory, new byte[1], 64));
            check("FerryArray", () => ferry.Copy(bytes, array, 64));
            check("FerryStream", () => stream.Synchronize());
            check("FerryStream", () => stream.WhenDone());
            check("FerryEvent", () => passed.Synchronize());
            check("FerryTicket", () => ticket.Wait());
        }
    }

    public static void a_closed_instance_is_named_and_ends_its_objects()
    {
        FerryInstance ferry = Test.Open();
        DeviceMemory memory = ferry.AllocDevice(4096);
        FerryStream stream = ferry.CreateStream();
        FerryTicket ticket = stream.CopyWithTicket(new byte[4096], memory, 4096);
        byte[] registered = new byte[4096];
        PinnedMemory pinned = ferry.Register(registered);
        ferry.Dispose();
        ferry.Dispose();
        ObjectDisposedException error = Test.Throws<ObjectDisposedException>(() => ferry.AllocDevice(16));
        Test.Equal(error.ObjectName, "FerryInstance", "name");
        Test.Throws<ObjectDisposedException>(() => ferry.Copy(registered, memory, 16));
        Test.Throws<ObjectDisposedException>(() => stream.Copy(pinned, memory, 16));
        Test.Throws<ObjectDisposedException>(() => ticket.IsDone.ToString());
        Test.Throws<ObjectDisposedException>(() => memory.DisposeAfter(stream));
        foreach (IDisposable one in new IDisposable[] { memory, stream, ticket, pinned }) one.Dispose();
    }

    public static void closing_waits_for_copies_of_managed_arrays()
    {
        FerryInstance ferry = Test.Open();
        FerryStream stream = ferry.CreateStream();
        DeviceMemory memory = ferry.AllocDevice(1 << 20);
        byte[] back = new byte[1 << 20];
        ferry.Fill(memory, new byte[] { 42 }, 1 << 20);
        Task copy;
        using (new Gate(ferry, stream))
        {
            copy = stream.CopyAsync(memory, back, 1 << 20);
            Test.That(!copy.IsCompleted, "the stream is blocked");
        }
        ferry.Dispose();
        Test.Equal(back[(1 << 20) - 1], (byte)42, "last byte");
        Test.That(copy.IsCompleted, "the task has ended");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Forget(FerryInstance ferry, List<ulong> addresses)
    {
        for (int i = 0; i < 100; i++)
        {
            addresses.Add(ferry.AllocDevice(4096).Address);
            ferry.CreateStream();
            addresses.Add((ulong)(long)ferry.Register(new byte[4096]).Address);
        }
    }

    static int CountFreed(FerryInstance ferry, List<ulong> addresses)
    {
        return addresses.FindAll(one => KindAt(ferry, one) == MemoryKind.Pageable).Count;
    }

    public static void forgotten_objects_are_freed_by_the_instance_and_by_no_finalizer()
    {
        using (FerryInstance ferry = Test.Open())
        {
            List<ulong> addresses = new List<ulong>();
            Thread other = new Thread(() => Forget(ferry, addresses)); // leaves no references on this stack
            other.Start();
            other.Join();
            int before = CountFreed(ferry, addresses); // allocations above may have freed earlier ones
            Test.CollectGarbage();
            Test.Equal(CountFreed(ferry, addresses), before, "freed by finalizers");
            ferry.FreeAbandoned();
            int freed = CountFreed(ferry, addresses);
            Test.That(freed > 150, freed + " of 200 freed");
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ForgetInstance()
    {
        FerryInstance ferry = Test.Open(options => options.Log = (level, line) => { });
        ferry.CreateStream().Copy(new byte[1 << 16], ferry.AllocDevice(1 << 16), 1 << 16);
    }

    public static void a_forgotten_instance_does_no_harm()
    {
        for (int i = 0; i < 3; i++)
        {
            Thread other = new Thread(ForgetInstance);
            other.Start();
            other.Join();
        }
        Test.CollectGarbage();
        using (FerryInstance ferry = Test.Open()) ferry.AllocDevice(16).Dispose();
    }

    public static void memory_is_freed_behind_a_stream_without_waiting()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        {
            DeviceMemory memory = ferry.AllocDevice(1 << 16);
            PinnedMemory pinned = ferry.AllocPinned(1 << 16);
            FerryArray array = ferry.CreateArray(ArrayFormat.Uint8, 1, 64, 64);
            FerryMipmappedArray mipmaps = ferry.CreateMipmappedArray(ArrayFormat.Uint8, 1, 64, 64);
            using (new Gate(ferry, stream))
            {
                stream.Copy(pinned, memory, 1 << 16);
                memory.DisposeAfter(stream);
                pinned.DisposeAfter(stream);
                array.DisposeAfter(stream);
                mipmaps.DisposeAfter(stream);
                Test.Equal(ferry.GetDeferred().Allocations, 2u, "allocations");
                Test.Equal(ferry.GetDeferred().Arrays, 2u, "arrays");
                Test.Throws<ObjectDisposedException>(() => memory.DisposeAfter(stream));
                memory.Dispose();
                Test.Throws<ObjectDisposedException>(() => ferry.Copy(pinned, memory, 1));
            }
            stream.Synchronize();
            ferry.TrimDeferred();
            Test.Equal(ferry.GetDeferred().Allocations, 0u, "allocations");
            Test.Equal(ferry.GetDeferred().Arrays, 0u, "arrays");
        }
    }

    public static void a_struct_size_of_the_program_is_not_used()
    {
        using (FerryInstance ferry = Test.Open(options =>
                   options.Adjust = (ref NativeOptions native) => native.StructSize = 4096))
            Test.That(ferry.IsSoftware, "opened");
        Test.Equal(new ErrorInfo { StructSize = 4096, Status = Status.Pitch }.ToString(),
                   new ErrorInfo { StructSize = ErrorInfo.SizeOf, Status = Status.Pitch }.ToString(), "line");
        Test.Equal(new Explanation { StructSize = uint.MaxValue }.ToString(), new Explanation().ToString(), "line");
        Test.Equal(new BatchExplanation { StructSize = 1 }.ToString(), new BatchExplanation().ToString(), "line");
    }

    /// <summary>The thread that watches tickets must not be the last to use an instance, which waits for it.</summary>
    public static void closing_beside_a_ticket_that_ends_does_not_hang()
    {
        for (int round = 0; round < 300; round++)
        {
            FerryInstance ferry = Test.Open();
            FerryStream stream = ferry.CreateStream();
            DeviceMemory memory = ferry.AllocDevice(4096);
            System.Threading.Tasks.Task done = stream.CopyAsync(new byte[4096], memory, 4096);
            if (round % 3 == 0) done.Wait();
            if (round % 3 == 1) Thread.Yield();
            ferry.Dispose();
            done.Wait();
        }
    }

    /// <summary>Runs itself with the software libcuda in the library path.</summary>
    public static void objects_of_another_driver_are_refused()
    {
        string folder = Environment.GetEnvironmentVariable("FERRY_SOFTWARE_LIBCUDA");
        if (!string.IsNullOrEmpty(folder))
        {
            System.Diagnostics.ProcessStartInfo start = new System.Diagnostics.ProcessStartInfo(
                "mono", "\"" + typeof(LifetimeTests).Assembly.Location + "\" another_driver");
            start.UseShellExecute = false;
            start.RedirectStandardOutput = true;
            start.EnvironmentVariables["FERRY_SOFTWARE_LIBCUDA"] = "";
            start.EnvironmentVariables["LD_LIBRARY_PATH"] += ":" + folder;
            using (System.Diagnostics.Process other = System.Diagnostics.Process.Start(start))
            {
                string output = other.StandardOutput.ReadToEnd();
                other.WaitForExit();
                Test.Equal(other.ExitCode, 0, output);
            }
            return;
        }
        FerryInstance cuda;
        try { cuda = Test.Open(options => options.Driver = Driver.Cuda); }
        catch (FerryException) { throw new Skipped("needs libcuda"); }
        using (cuda)
        using (FerryInstance ferry = Test.Open())
        {
            DeviceMemory memory = ferry.AllocDevice(16), other = cuda.AllocDevice(16);
            FerryStream stream = ferry.CreateStream(), otherStream = cuda.CreateStream();
            CopyBatch batch = new CopyBatch();
            batch.Add(memory, other, 16);
            CopyBatch good = new CopyBatch();
            good.Add(memory, memory.At(0), 0);
            PreparedBatch prepared = stream.Prepare(good);
            foreach (Action call in new Action[]
            {
                () => ferry.Copy(memory, other, 16), () => cuda.Copy(new byte[16], memory, 16),
                () => stream.Copy(memory, other, 16), () => otherStream.Copy(batch), () => cuda.Copy(batch),
                () => cuda.Fill(memory, new byte[1], 16), () => otherStream.Fill(memory, new byte[1], 16),
                () => memory.DisposeAfter(otherStream), () => other.DisposeAfter(stream),
                () => otherStream.Record(ferry.CreateEvent()), () => stream.Wait(cuda.CreateEvent()),
                () => prepared.Launch(otherStream)
            })
                Test.That(Test.Throws<ArgumentException>(call).Message.Contains("another driver"), "named");
            ferry.Copy(new byte[16], memory, 16);
        }
    }

    public static void threads_may_share_a_batch()
    {
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory memory = ferry.AllocDevice(1 << 20))
        {
            CopyBatch batch = new CopyBatch();
            List<Thread> threads = new List<Thread>();
            List<Exception> errors = new List<Exception>();
            for (int i = 0; i < 4; i++)
            {
                int mine = i;
                threads.Add(new Thread(() =>
                {
                    try
                    {
                        using (FerryStream stream = ferry.CreateStream())
                            for (int round = 0; round < 200; round++)
                            {
                                if (mine == 0 && round % 20 == 0) batch.Clear();
                                for (int j = 0; j < 10; j++)
                                    batch.Add(new byte[64], memory.At(64 * (mine * 2000 + round * 10 + j)), 64);
                                if (mine % 2 == 0) ferry.Copy(batch);
                                else stream.Copy(batch);
                            }
                    }
                    catch (Exception error) { lock (errors) errors.Add(error); }
                }));
            }
            threads.ForEach(thread => thread.Start());
            threads.ForEach(thread => thread.Join());
            Test.That(errors.Count == 0, string.Join("; ", errors));
        }
    }

    public static void an_object_in_use_ends_after_the_call()
    {
        for (int round = 0; round < 20; round++)
        {
            FerryInstance ferry = Test.Open();
            int calls = 0;
            List<Thread> threads = new List<Thread>();
            List<Exception> errors = new List<Exception>();
            for (int i = 0; i < 4; i++)
            {
                FerryStream stream = ferry.CreateStream();
                DeviceMemory memory = ferry.AllocDevice(1 << 14);
                threads.Add(new Thread(() =>
                {
                    byte[] bytes = new byte[1 << 14];
                    try
                    {
                        while (true)
                        {
                            stream.Copy(bytes, memory, 1 << 14);
                            ferry.Copy(memory, bytes, 1 << 14);
                            stream.Synchronize();
                            Interlocked.Increment(ref calls);
                        }
                    }
                    catch (ObjectDisposedException) { }
                    catch (Exception error) { lock (errors) errors.Add(error); }
                }));
            }
            threads.ForEach(thread => thread.Start());
            while (Volatile.Read(ref calls) < 8) Thread.Yield();
            ferry.Dispose();
            threads.ForEach(thread => thread.Join());
            Test.That(errors.Count == 0, string.Join("; ", errors));
        }
    }

    public static void imported_memory_is_a_place_and_ends_its_arrays()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        {
            ExternalMemory memory = ferry.ImportMemory(ExternalMemoryType.OpaqueFd, Test.NewFile(1 << 16), 1 << 16);
            byte[] sent = Test.Pattern(4096, 6);
            Place place = memory.At(8192, 4096);
            ferry.Copy(sent, place, 4096);
            Test.Same(Test.Download(ferry, place, 4096), sent, "bytes");
            Test.Throws<FerryException>(() => ferry.Copy(sent, place.At(1), 4096));
            ArrayDesc desc = FerryInstance.NewArrayDesc(ArrayFormat.Uint8, 1, 64, 64);
            FerryMipmappedArray image = memory.CreateArray(16384, desc);
            ferry.Copy(sent, image.Level(0), 64, 64);
            memory.DisposeAfter(stream);
            Test.Throws<ObjectDisposedException>(() => ferry.Copy(sent, place, 4096));
            Test.Throws<ObjectDisposedException>(() => image.Level(0));
            image.Dispose(); // its array is gone with the memory
            stream.Synchronize();
            ferry.TrimDeferred();
            FerryException error = Test.Throws<FerryException>(
                () => ferry.ImportMemory(ExternalMemoryType.OpaqueFd, 99999, 1 << 16));
            Test.Equal(error.Status, Status.Handle, "status");
            Test.Equal(error.Field, Field.OsHandle, "field");
        }
    }

#if !NETCOREAPP
    // What a game engine's editor does when scripts change.
    static void UseInDomain()
    {
        FerryInstance closed = Test.Open(options => options.Log = (level, line) => { }), left = Test.Open();
        foreach (FerryInstance ferry in new[] { closed, left })
        {
            FerryStream stream = ferry.CreateStream();
            stream.CopyAsync(new byte[1 << 20], ferry.AllocDevice(1 << 20), 1 << 20).Wait();
        }
        closed.Dispose();
    }

    public static void a_domain_unloads_with_an_instance_closed_and_one_left()
    {
        for (int i = 0; i < 3; i++)
        {
            AppDomain domain;
            try { domain = AppDomain.CreateDomain("reload", null, AppDomain.CurrentDomain.SetupInformation); }
            catch (PlatformNotSupportedException) { throw new Skipped("this runtime has one domain"); }
            domain.DoCallBack(UseInDomain);
            AppDomain.Unload(domain);
        }
        using (FerryInstance ferry = Test.Open()) ferry.AllocDevice(16).Dispose();
    }
#endif
}
