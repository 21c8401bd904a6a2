// Runs every public method of the test classes: each is a test, and its name is what it shows.
using System;
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Threading;
using Ferry;

sealed class Skipped : Exception
{
    internal Skipped(string why) : base(why) { }
}

static class Runner
{
    static int Main(string[] arguments)
    {
        int passed = 0, failed = 0, skipped = 0;
        foreach (Type type in new[] { typeof(DeclarationTests), typeof(CopyTests), typeof(FileTests),
                                      typeof(LifetimeTests), typeof(StreamTests) })
            foreach (MethodInfo test in type.GetMethods(BindingFlags.Static | BindingFlags.Public))
            {
                if (arguments.Length > 0 && !test.Name.Contains(arguments[0])) continue;
                try
                {
                    test.Invoke(null, null);
                    passed++;
                }
                catch (TargetInvocationException error)
                {
                    bool isSkipped = error.InnerException is Skipped;
                    if (isSkipped) skipped++;
                    else failed++;
                    Console.WriteLine("{0}: {1}.{2}: {3}", isSkipped ? "skipped" : "FAILED", type.Name, test.Name,
                                      isSkipped ? error.InnerException.Message : error.InnerException.ToString());
                }
            }
        Console.WriteLine("{0} passed, {1} failed, {2} skipped", passed, failed, skipped);
        return failed == 0 && passed > 0 ? 0 : 1;
    }
}

/// <summary>What several tests need.</summary>
static unsafe class Test
{
    internal static FerryInstance Open(Action<FerryOptions> change = null)
    {
        FerryOptions options = new FerryOptions { Driver = Driver.Software };
        if (change != null) change(options);
        FerryInstance ferry = FerryInstance.Open(options);
        // Makes copies on the software driver take the routes that they take on a GPU.
        string profile = Environment.GetEnvironmentVariable("FERRY_TEST_PROFILE");
        if (string.IsNullOrEmpty(profile)) return ferry;
        byte[] text = System.IO.File.ReadAllBytes(profile);
        fixed (byte* first = text)
            Equal(Native.ferry_profile_load(ferry.Pointer, first, (ulong)text.Length, null), Status.Success, profile);
        return ferry;
    }

    internal static void That(bool condition, string what)
    {
        if (!condition) throw new Exception(what);
    }

    internal static void Equal<T>(T found, T wanted, string what)
    {
        That(Equals(found, wanted), what + ": " + found + ", not " + wanted);
    }

    internal static T Throws<T>(Action action) where T : Exception
    {
        try { action(); }
        catch (T error) { return error; }
        throw new Exception("no " + typeof(T).Name);
    }

    [DllImport("libc.so.6")] static extern int memfd_create(string name, uint flags);
    [DllImport("libc.so.6")] static extern int ftruncate(int file, long size);

    /// <summary>What another API would export, for the software driver.</summary>
    internal static int NewFile(long size)
    {
        int file = memfd_create("external", 0);
        Equal(ftruncate(file, size), 0, "ftruncate");
        return file;
    }

    [DllImport("libc.so.6")]
    static extern IntPtr readlink([MarshalAs(UnmanagedType.LPStr)] string path, byte* target, IntPtr size);

    internal static string ReadLink(string path)
    {
        byte* target = stackalloc byte[4096];
        int length = (int)readlink(path, target, (IntPtr)4096);
        return length < 0 ? null : System.Text.Encoding.UTF8.GetString(target, length);
    }

    internal static byte[] Pattern(long size, int seed)
    {
        byte[] bytes = new byte[size];
        new Random(seed).NextBytes(bytes);
        return bytes;
    }

    internal static void Same(byte[] found, byte[] wanted, string what)
    {
        for (int i = 0; i < wanted.Length; i++)
            if (found[i] != wanted[i]) Equal(found[i], wanted[i], what + ", byte " + i);
    }

    internal static byte[] Download(FerryInstance ferry, Place place, long size)
    {
        byte[] bytes = new byte[size];
        ferry.Copy(place, bytes, size);
        return bytes;
    }

    internal static void CollectGarbage()
    {
        for (int i = 0; i < 3; i++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
    }

    internal static bool Eventually(Func<bool> condition)
    {
        for (int i = 0; i < 2000; i++)
        {
            if (condition()) return true;
            Thread.Sleep(1);
        }
        return false;
    }
}

/// <summary>Blocks a stream until Dispose, with a driver callback: sem_wait of the C library, because a managed
/// callback would hang Mono's collector.</summary>
sealed unsafe class Gate : IDisposable
{
    [DllImport("libc.so.6")] static extern IntPtr dlsym(IntPtr library, string name);
    [DllImport("libc.so.6")] static extern int sem_init(IntPtr semaphore, int shared, uint value);
    [DllImport("libc.so.6")] static extern int sem_post(IntPtr semaphore);
    static readonly IntPtr semWait = dlsym(IntPtr.Zero, "sem_wait");

    readonly IntPtr semaphore = Marshal.AllocHGlobal(64); // never freed: the callback may still use it

    internal Gate(FerryInstance ferry, FerryStream stream)
    {
        ferry.PrepareStaging(); // loading kernels would wait for the stream
        Test.Equal(sem_init(semaphore, 0, 0), 0, "sem_init");
        Test.Equal(Native.ferry_stream_notify(ferry.Pointer, stream.Pointer, semWait, semaphore, null), Status.Success,
                   "notify");
    }

    public void Dispose() { sem_post(semaphore); }
}
