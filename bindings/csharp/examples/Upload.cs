// Sends an array to the device and back, synchronously and then awaited on a stream.
using System;
using System.Threading.Tasks;
using Ferry;

static class Upload
{
    static int Main()
    {
        byte[] sent = new byte[1 << 20], received = new byte[sent.Length], awaited = new byte[sent.Length];
        new Random(1).NextBytes(sent);
        // The NVIDIA driver, or ferry's software driver on a machine without it.
        using (FerryInstance ferry = FerryInstance.Open(new FerryOptions { Driver = Driver.Auto }))
        using (DeviceMemory memory = ferry.AllocDevice(sent.Length))
        {
            ferry.Copy(sent, memory, sent.Length);
            ferry.Copy(memory, received, received.Length);
            SendAndReceive(ferry, memory, sent, awaited).Wait();
            bool arrived = Convert.ToBase64String(sent) == Convert.ToBase64String(received) &&
                           Convert.ToBase64String(sent) == Convert.ToBase64String(awaited);
            if (arrived)
                Console.WriteLine("{0} bytes went there and back on {1}", sent.Length, ferry.GetDevice(0).NameText);
            return arrived ? 0 : 1;
        }
    }

    static async Task SendAndReceive(FerryInstance ferry, DeviceMemory memory, byte[] sent, byte[] received)
    {
        using (FerryStream stream = ferry.CreateStream())
        {
            stream.Copy(sent, memory, sent.Length); // pinned by itself until it is complete
            await stream.CopyAsync(memory, received, received.Length);
        }
    }
}
