// A frame loop with two frames in flight. Each frame streams constants from pinned memory and a new texture from the
// heap. Nothing in a frame waits for the GPU but the display's pace.
using System;
using Ferry;

static class FrameLoop
{
    const int TexelsWide = 256, TextureSize = TexelsWide * TexelsWide * 4, ConstantsSize = 4096;

    static int Main()
    {
        FerryOptions options = new FerryOptions { Driver = Driver.Auto, Staging = Staging.AtOpen }; // no wait later
        using (FerryInstance ferry = FerryInstance.Open(options))
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory constants = ferry.AllocDevice(ConstantsSize))
        using (PinnedMemory written = ferry.AllocPinned(2 * ConstantsSize)) // a half for each frame in flight
        {
            FerryEvent[] done = { ferry.CreateEvent(), ferry.CreateEvent() };
            byte[] pixels = new byte[TextureSize];
            new Random(1).NextBytes(pixels);
            int[] values = new int[ConstantsSize / 4];
            CopyOptions urgent = new CopyOptions { Priority = Priority.Urgent };
            for (int frame = 0; frame < 60; frame++)
            {
                done[frame % 2].Synchronize(); // the display's pace: frame - 2 is done, its half may be written
                values[0] = frame;
                written.Write(values, frame % 2 * ConstantsSize);
                stream.Copy(written.At(frame % 2 * ConstantsSize), constants, ConstantsSize, options: urgent);

                // New, or the reuse of an equal array whose DisposeAfter has completed on its stream.
                FerryArray texture = ferry.CreateArray(ArrayFormat.Uint8, 4, TexelsWide, TexelsWide);
                stream.Copy(pixels, texture, TexelsWide * 4, TexelsWide); // pixels may not change until it is complete
                texture.DisposeAfter(stream);
                stream.Record(done[frame % 2]);
            }
            int[] last = new int[values.Length];
            stream.CopyAsync(constants, last, ConstantsSize).Wait();
            Console.WriteLine("60 frames took {0} textures; the last is {1}", ferry.GetDeferred().Arrays, last[0]);
            return last[0] == 59 ? 0 : 1;
        }
    }
}
