// Many copies in one call, the index of a bad one, and a batch that is planned once and launched twice.
using System;
using Ferry;

static class Batch
{
    const int Count = 1000, Size = 256; // on the device the order is reversed

    static int Main()
    {
        byte[] sent = new byte[Count * Size], received = new byte[Count * Size];
        using (FerryInstance ferry = FerryInstance.Open(new FerryOptions { Driver = Driver.Auto }))
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(Count * Size))
        using (PinnedMemory pinned = ferry.Register(sent)) // in place until Dispose: kernels read it
        {
            CopyBatch batch = new CopyBatch();
            for (int i = 0; i < Count; i++)
                batch.Add(pinned.At(i * Size), memory.At((Count - 1 - i) * Size), i == 617 ? 1 << 30 : Size);
            try { stream.Copy(batch); } // past the end: the whole batch is refused
            catch (FerryException error) { Console.WriteLine("copy {0} is bad: {1}", error.Index, error.Message); }

            batch.Clear();
            for (int i = 0; i < Count; i++) batch.Add(pinned.At(i * Size), memory.At((Count - 1 - i) * Size), Size);
            Console.WriteLine(stream.Explain(batch));
            using (PreparedBatch prepared = stream.Prepare(batch))
                for (byte frame = 1; frame <= 2; frame++)
                {
                    for (int i = 0; i < sent.Length; i++) sent[i] = (byte)(frame * (i / Size));
                    prepared.Launch(stream);
                    stream.CopyAsync(memory, received, received.Length).Wait();
                    for (int i = 0; i < received.Length; i++)
                        if (received[i] != (byte)(frame * (Count - 1 - i / Size))) return 1;
                }
        }
        Console.WriteLine("{0} pieces arrived, twice", Count);
        return 0;
    }
}
