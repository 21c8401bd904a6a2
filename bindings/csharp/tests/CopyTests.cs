// Every byte of both ends, beside plain loops over arrays.
using System;
using System.Collections.Generic;
using System.Threading.Tasks;
using Ferry;

static class CopyTests
{
    enum Kind { Managed, Matrix, Pinned, Registered, Device, Array }

    /// <summary>Slices of rows of bytes. The box of a copy begins at x, y, z.</summary>
    struct Shape
    {
        internal int Pitch, Rows, Slices, Width, Height, Depth;
        internal int[] Source, Destination; // x, y, z
        internal long Size { get { return (long)Pitch * Rows * Slices; } }

        public override string ToString()
        {
            return string.Format("{0} x {1} x {2} of {3} x {4} x {5} from {6} to {7}", Width, Height, Depth,
                                 Pitch, Rows, Slices, string.Join(",", Source), string.Join(",", Destination));
        }
    }

    /// <summary>The whole memory of one end, with its first contents.</summary>
    sealed class End : IDisposable
    {
        readonly FerryInstance ferry;
        readonly Shape shape;
        readonly IDisposable memory;
        internal readonly Place Place;

        internal End(FerryInstance ferry, Kind kind, Shape shape, byte[] contents)
        {
            this.ferry = ferry;
            this.shape = shape;
            if (kind == Kind.Managed || kind == Kind.Registered)
            {
                byte[] array = (byte[])contents.Clone();
                if (kind == Kind.Managed) Place = array;
                else Place = (PinnedMemory)(memory = ferry.Register(array));
            }
            else if (kind == Kind.Matrix)
            {
                byte[,] array = new byte[shape.Rows * shape.Slices, shape.Pitch];
                Buffer.BlockCopy(contents, 0, array, 0, contents.Length);
                Place = array;
            }
            else if (kind == Kind.Pinned)
            {
                PinnedMemory pinned = ferry.AllocPinned(shape.Size);
                pinned.Write(contents);
                memory = pinned;
                Place = pinned;
            }
            else if (kind == Kind.Device)
            {
                DeviceMemory device = ferry.AllocDevice(shape.Size);
                ferry.Copy(contents, device, shape.Size);
                memory = device;
                Place = device;
            }
            else
            {
                FerryArray array = ferry.CreateArray(ArrayFormat.Uint8, 1, shape.Pitch,
                                                     shape.Rows == 1 ? 0 : shape.Rows,
                                                     shape.Slices == 1 ? 0 : shape.Slices);
                memory = array;
                Place = array;
                ferry.Copy(contents, array, shape.Pitch, shape.Rows, shape.Slices);
            }
            Place = Place.Pitched(shape.Pitch, shape.Rows);
        }

        internal byte[] Contents()
        {
            byte[] bytes = new byte[shape.Size];
            ferry.Copy(Place, bytes, shape.Pitch, shape.Rows, shape.Slices);
            return bytes;
        }

        public void Dispose() { if (memory != null) memory.Dispose(); }
    }

    static byte[] Expected(Shape shape, byte[] source, byte[] destination)
    {
        byte[] result = (byte[])destination.Clone();
        for (int z = 0; z < shape.Depth; z++)
            for (int y = 0; y < shape.Height; y++)
                for (int x = 0; x < shape.Width; x++)
                    result[At(shape, shape.Destination, x, y, z)] = source[At(shape, shape.Source, x, y, z)];
        return result;
    }

    static int At(Shape shape, int[] origin, int x, int y, int z)
    {
        return ((z + origin[2]) * shape.Rows + y + origin[1]) * shape.Pitch + x + origin[0];
    }

    static IEnumerable<Shape> Shapes()
    {
        yield return new Shape { Pitch = 1, Rows = 1, Slices = 1, Width = 1, Height = 1, Depth = 1, Source = new int[3],
                                 Destination = new int[3] };
        Random random = new Random(5);
        for (int dimensions = 1; dimensions <= 3; dimensions++)
            for (int i = 0; i < 5; i++)
            {
                Shape shape = new Shape { Pitch = random.Next(2, 4000), Rows = dimensions > 1 ? random.Next(2, 20) : 1,
                                          Slices = dimensions > 2 ? random.Next(2, 6) : 1 };
                shape.Width = random.Next(1, shape.Pitch);
                shape.Height = shape.Rows == 1 ? 1 : random.Next(1, shape.Rows);
                shape.Depth = shape.Slices == 1 ? 1 : random.Next(1, shape.Slices);
                shape.Source = Origin(random, shape);
                shape.Destination = Origin(random, shape);
                yield return shape;
            }
    }

    static int[] Origin(Random random, Shape shape)
    {
        return new[] { random.Next(shape.Pitch - shape.Width + 1), random.Next(shape.Rows - shape.Height + 1),
                       random.Next(shape.Slices - shape.Depth + 1) };
    }

    static int CopyAll(Action<FerryInstance, FerryStream, Place, Place, Shape> copy)
    {
        int count = 0;
        using (FerryInstance ferry = Test.Open(options => options.Checks = Checks.Full))
        using (FerryStream stream = ferry.CreateStream())
            foreach (Shape shape in Shapes())
                foreach (Kind from in Enum.GetValues(typeof(Kind)))
                    foreach (Kind to in Enum.GetValues(typeof(Kind)))
                    {
                        byte[] sent = Test.Pattern(shape.Size, 1), old = Test.Pattern(shape.Size, 2);
                        using (End source = new End(ferry, from, shape, sent))
                        using (End destination = new End(ferry, to, shape, old))
                        {
                            copy(ferry, stream, source.Place.At(shape.Source[0], shape.Source[1], shape.Source[2]),
                                 destination.Place.At(shape.Destination[0], shape.Destination[1], shape.Destination[2]),
                                 shape);
                            string what = from + " to " + to + ", " + shape;
                            Test.Same(destination.Contents(), Expected(shape, sent, old), what);
                            Test.Same(source.Contents(), sent, "source, " + what);
                            count++;
                        }
                    }
        return count;
    }

    public static void a_copy_writes_its_box_and_nothing_else()
    {
        Test.Equal(CopyAll((ferry, stream, source, destination, shape) =>
            ferry.Copy(source, destination, shape.Width, shape.Height, shape.Depth)), 576, "copies");
    }

    public static void a_copy_on_a_stream_writes_its_box_and_nothing_else()
    {
        CopyAll((ferry, stream, source, destination, shape) =>
        {
            stream.Copy(source, destination, shape.Width, shape.Height, shape.Depth);
            stream.Synchronize();
        });
    }

    public static void an_awaited_copy_writes_its_box_and_nothing_else()
    {
        CopyAll((ferry, stream, source, destination, shape) =>
            stream.CopyAsync(source, destination, shape.Width, shape.Height, shape.Depth).Wait());
    }

    struct Vertex
    {
        public float X, Y, Z;
        public byte Color;
    }

    struct Named
    {
        public string Name;
    }

    public static void elements_of_any_plain_type_are_copied()
    {
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory memory = ferry.AllocDevice(4096))
        {
            Vertex[] vertices = new Vertex[100];
            for (int i = 0; i < vertices.Length; i++) vertices[i] = new Vertex { X = i, Color = (byte)i };
            ferry.Copy(vertices, memory, 1600);
            Vertex[] back = new Vertex[100];
            ferry.Copy(memory, back, 1600);
            Test.Equal(back[99].X, 99f, "x");
            Test.Equal(back[98].Color, (byte)98, "color");
            char[] text = "two bytes each".ToCharArray(), read = new char[text.Length]; // Marshal.SizeOf says one byte
            ferry.Copy(text, memory, 2 * text.Length);
            ferry.Copy(memory, read, 2 * text.Length);
            Test.Equal(new string(read), new string(text), "text");
            Test.Throws<FerryException>(() => ferry.Copy(text, memory, 2 * text.Length + 1));
            double[,,] cube = new double[2, 3, 4], other = new double[2, 3, 4];
            cube[1, 2, 3] = 7;
            ferry.Copy(cube, memory, 192);
            ferry.Copy(memory, other, 192);
            Test.Equal(other[1, 2, 3], 7.0, "cube");
        }
    }

    public static void elements_with_references_are_refused()
    {
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory memory = ferry.AllocDevice(4096))
        {
            Test.Throws<ArgumentException>(() => ferry.Copy(new[] { "text" }, memory, 8));
            Test.Throws<ArgumentException>(() => ferry.Copy(new Named[4], memory, 8));
            Test.Throws<ArgumentException>(() => ferry.Register(new object[4]));
        }
    }

    public static void a_copy_beyond_an_array_is_refused_and_named()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(4096))
        using (PinnedMemory pinned = ferry.AllocPinned(4096))
        {
            int size = (int)pinned.Size + 1;
            FerryException error = Test.Throws<FerryException>(() => ferry.Copy(new byte[100], memory, 101));
            Test.Equal(error.Status, Status.OutOfBounds, "status");
            Test.Equal(error.Side, Side.Source, "side");
            Test.Equal(error.Limit, 100ul, "limit");
            error = Test.Throws<FerryException>(() => stream.Copy(memory, new byte[100], 10, 11));
            Test.Equal(error.Side, Side.Destination, "side");
            Test.Equal(error.Value, 110ul, "value");
            Test.That(error.Message.Contains("destination.width: 110") && error.Message.Contains("100"), error.Message);
            Place hundred = new byte[100];
            Test.Throws<FerryException>(() => ferry.Copy(hundred.At(90), memory, 11));
            Test.Throws<FerryException>(() => ferry.Copy(hundred.Pitched(10, 4).At(0, 0, 2), memory, 10, 3));
            Test.Throws<FerryException>(() => ferry.Copy(hundred.At(long.MaxValue), memory, long.MaxValue));
            Test.Throws<FerryException>(() => ferry.Copy(new byte[size], pinned, size));
            Test.Throws<FerryException>(() => ferry.Copy(memory.At(4000), new byte[97], 97));
            Test.Throws<ArgumentOutOfRangeException>(() => ferry.Copy(new byte[100], memory, -1));
            Test.Throws<ArgumentOutOfRangeException>(() => memory.At(-1));
            ferry.Copy(new byte[0], memory, 0);
        }
    }

    public static void a_negative_number_is_refused_and_named()
    {
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory memory = ferry.AllocDevice(4096))
        {
            Action<string, Action> refuses = (name, call) =>
                Test.Equal(Test.Throws<ArgumentOutOfRangeException>(call).ParamName, name, "parameter");
            Place place = memory;
            foreach (long bad in new[] { -1, long.MinValue })
            {
                refuses("width", () => ferry.Copy(new byte[100], memory, bad));
                refuses("height", () => ferry.Copy(new byte[100], memory, 1, bad));
                refuses("depth", () => ferry.Copy(new byte[100], memory, 1, 1, bad));
                refuses("width", () => ferry.Fill(memory, new byte[1], bad));
                refuses("x", () => place.At(bad));
                refuses("y", () => place.At(0, bad));
                refuses("z", () => place.At(0, 0, bad));
                refuses("rowPitch", () => place.Pitched(bad));
                refuses("sliceHeight", () => place.Pitched(1, bad));
                refuses("size", () => ferry.AllocDevice(bad));
                refuses("size", () => ferry.AllocPinned(bad));
                refuses("size", () => ferry.AllocManaged(bad));
                refuses("size", () => ferry.Register((IntPtr)4096, bad));
                refuses("height", () => ferry.AllocDevicePitched(16, bad));
                refuses("depth", () => ferry.CreateArray(ArrayFormat.Uint8, 1, 16, 16, bad));
                refuses("keep", () => ferry.TrimDeferred(0, bad));
            }
            refuses("channels", () => ferry.CreateArray(ArrayFormat.Uint8, -1, 16));
            refuses("levels", () => ferry.CreateMipmappedArray(ArrayFormat.Uint8, 1, 16, 16, 0, -1));
        }
    }

    [System.Runtime.InteropServices.DllImport("libc")]
    static extern IntPtr calloc(IntPtr count, IntPtr size);
    [System.Runtime.InteropServices.DllImport("libc")]
    static extern void free(IntPtr memory);

    /// <summary>Only the largest copy is made whole. What is never written takes no memory.</summary>
    public static unsafe void sizes_above_32_bits_arrive_or_are_refused()
    {
        const long largest = (1L << 32) + 5;
        using (FerryInstance ferry = Test.Open(options => options.SoftwareMemory = 5UL << 30))
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(largest))
        {
            byte[] first = { 1, 2, 3, 4, 5, 6, 7, 8 }, last = { 11, 12, 13, 14, 15, 16, 17, 18 }, got = new byte[8];
            Action<long, byte[]> expect = (offset, wanted) =>
            {
                ferry.Copy(memory.At(offset), got, 8);
                Test.Same(got, wanted, "at " + offset);
            };
            long[] array = new long[(1 << 28) + 1]; // 2 GiB and 8 bytes
            array.SetValue(0x1817161514131211, 1 << 28); // Mono 6.8 crashes at a constant index as large
            ferry.Copy(((Place)array).At(1L << 31), memory.At(1L << 31), 8);
            expect(1L << 31, BitConverter.GetBytes(0x1817161514131211));
            FerryException beyond = Test.Throws<FerryException>(() => ferry.Copy(array, memory, (1L << 31) + 9));
            Test.Equal(beyond.Value, (1UL << 31) + 9, "value");
            Test.Equal(beyond.Limit, (1UL << 31) + 8, "limit");

            IntPtr host = calloc((IntPtr)largest, (IntPtr)1);
            Test.That(host != IntPtr.Zero, "calloc");
            try
            {
                foreach (long size in new[]
                         { (1L << 31) - 1, 1L << 31, (1L << 31) + 1, (1L << 32) - 1, 1L << 32, largest })
                {
                    Place whole = Place.Host(host, size);
                    ferry.Explain(new CopyBox(whole, memory, size));
                    foreach (Place place in new[] { Place.Host(host, size - 1), memory.At(largest - size + 1) })
                    {
                        FerryException error = Test.Throws<FerryException>(() => ferry.Copy(place, whole, size));
                        Test.Equal(error.Value, (ulong)size, "value");
                        Test.Equal(error.Limit, (ulong)size - 1, "limit");
                    }
                    ferry.Copy(first, memory.At(size - 8), 8);
                    expect(size - 8, first);
                    stream.Copy(last, ((Place)memory).At(size - 8), 8);
                    stream.Synchronize();
                    expect(size - 8, last);
                    long pitch = size / 2;
                    if (pitch > int.MaxValue) continue;
                    System.Runtime.InteropServices.Marshal.Copy(first, 0, (IntPtr)((long)host + 2 * pitch - 8), 8);
                    ferry.Copy(whole.Pitched(pitch).At(pitch - 8), ((Place)memory).Pitched(pitch).At(pitch - 8), 8, 2);
                    expect(2 * pitch - 8, first);
                }
                System.Runtime.InteropServices.Marshal.Copy(first, 0, host, 8);
                System.Runtime.InteropServices.Marshal.Copy(last, 0, (IntPtr)((long)host + largest - 8), 8);
                CopyOptions byDriver = new CopyOptions { Route = Route.Driver };
                ferry.Copy(Place.Host(host, largest), memory, largest, options: byDriver);
                expect(0, first);
                expect(largest - 8, last);
            }
            finally { free(host); }
            Test.Throws<FerryException>(() => ferry.AllocDevice(long.MaxValue));
            Test.Throws<FerryException>(() => ferry.AllocPinned(long.MaxValue));
        }
    }

    public static void an_error_names_side_field_value_and_limit()
    {
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory memory = ferry.AllocDevice(4096))
        {
            FerryException error = Test.Throws<FerryException>(
                () => ferry.Copy(new byte[4096], ((Place)memory).Pitched(100), 128, 4));
            Test.Equal(error.Status, Status.Pitch, "status");
            Test.Equal(error.Side, Side.Destination, "side");
            Test.Equal(error.Field, Field.RowPitch, "field");
            Test.Equal(error.Value, 100ul, "value");
            Test.Equal(error.Limit, 128ul, "limit");
            Test.Equal(error.Message, "destination.row_pitch: 100, must be at least 128 (FERRY_ERROR_PITCH)", "line");
            CopyBatch batch = new CopyBatch();
            for (int i = 0; i < 20; i++) batch.Add(new byte[16], memory.At(16 * i), 16);
            batch.Add(new byte[16], Place.CudaArray(IntPtr.Zero, 0), 16);
            error = Test.Throws<FerryException>(() => ferry.Copy(batch));
            Test.Equal(error.Index, 20L, "index");
            Test.Equal(error.Field, Field.Array, "field");
            error = Test.Throws<FerryException>(() => ferry.AllocDevice(1L << 60));
            Test.Equal((int)error.Status, -1002, "status of the driver");
            Test.That(error.CanRetry && !error.IsContextDead, "traits");
            Test.Equal(Test.Throws<FerryException>(() => ferry.GetDevice(9)).Status, Status.Device, "status");
        }
    }

    static void CheckDetails(FerryInstance ferry, int device)
    {
        foreach (Action call in new Action[] { () => ferry.GetDevice(device), () => ferry.Synchronize(device),
                                               () => ferry.PrepareStaging(device), () => ferry.TrimDeferred(device) })
        {
            FerryException error = Test.Throws<FerryException>(call);
            Test.Equal(error.Status, Status.Device, "status");
            Test.Equal(error.Field, Field.Device, "field");
            Test.Equal(error.Value, (ulong)device, "value");
            Test.Equal(error.Limit, (ulong)ferry.DeviceCount, "limit");
        }
        using (FerryEvent start = ferry.CreateEvent())
        using (FerryEvent end = ferry.CreateEvent()) // neither is recorded
            Test.Equal(Test.Throws<FerryException>(() => end.MillisecondsSince(start)).DriverFunction,
                       "cuEventElapsedTime", "driver function");
    }

    public static void every_call_has_the_details_of_its_error_on_every_thread()
    {
        using (FerryInstance ferry = Test.Open())
        {
            List<Task> tasks = new List<Task>();
            for (int i = 0; i < 4; i++)
            {
                int device = 90 + i;
                tasks.Add(Task.Run(() => { for (int j = 0; j < 200; j++) CheckDetails(ferry, device); }));
            }
            Task.WaitAll(tasks.ToArray());
        }
    }

    public static void a_batch_with_all_kinds_of_memory_arrives()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(1 << 16))
        using (PinnedMemory pinned = ferry.AllocPinned(1 << 16))
        using (FerryArray array = ferry.CreateArray(ArrayFormat.Uint8, 1, 64, 16))
        {
            for (int round = 0; round < 3; round++)
            {
                byte[] sent = Test.Pattern(1 << 15, round), image = Test.Pattern(1024, 9 + round);
                pinned.Write(sent);
                CopyOptions checkOverlap = new CopyOptions { Flags = CopyFlags.CheckOverlap };
                CopyBatch batch = new CopyBatch();
                for (int i = 0; i < 64; i++) batch.Add(((Place)sent).At(512 * i), memory.At(512 * (63 - i)), 512);
                for (int i = 0; i < 32; i++) batch.Add(pinned.At(1024 * i), memory.At(32768 + 1024 * (31 - i)), 1024);
                batch.Add(image, array, 64, 16);
                if (round == 0) ferry.Copy(batch, checkOverlap);
                else stream.Copy(batch, checkOverlap);
                Test.That(round == 0 || stream.Explain(batch).ToString().Length > 10, "explanation");
                stream.Synchronize();
                byte[] back = Test.Download(ferry, memory, 1 << 16);
                for (int i = 0; i < 1 << 15; i++)
                {
                    Test.Equal(back[512 * (63 - i / 512) + i % 512], sent[i], "managed");
                    Test.Equal(back[32768 + 1024 * (31 - i / 1024) + i % 1024], sent[i], "pinned");
                }
                byte[] texels = new byte[1024];
                ferry.Copy(array, texels, 64, 16);
                Test.Same(texels, image, "array");
                batch.Clear();
                Test.Equal(batch.Count, 0, "count");
            }
            FerryException error = Test.Throws<FerryException>(() =>
            {
                CopyBatch overlapping = new CopyBatch();
                overlapping.Add(pinned, memory, 100);
                overlapping.Add(pinned, memory.At(99), 100);
                ferry.Copy(overlapping, new CopyOptions { Flags = CopyFlags.CheckOverlap });
            });
            Test.Equal(error.Status, Status.Overlap, "status");
        }
    }

    public static void the_tag_of_every_call_arrives_in_its_ticket()
    {
        const long size = 4096;
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(size))
        using (PinnedMemory pinned = ferry.AllocPinned(size))
        {
            CopyBatch batch = new CopyBatch();
            batch.Add(pinned, memory, size);
            Piece[] pieces =
            {
                new Piece { Source = (ulong)(long)pinned.Address, Destination = memory.Address, Size = size },
            };
            Func<ulong, CopyOptions> tag = number => new CopyOptions { Tag = number };
            using (PreparedBatch prepared = stream.Prepare(batch, tag(ulong.MaxValue)))
            {
                CopyOptions byKernel = new CopyOptions { Route = Route.Kernel, Tag = 9 };
                FerryTicket[] tickets =
                {
                    stream.CopyWithTicket(pinned, memory, size, options: tag(1)),
                    stream.CopyWithTicket(batch, tag(2)), stream.CopyPiecesWithTicket(pieces, 1, tag(3)),
                    stream.FillWithTicket(memory, new byte[] { 7 }, size, options: tag(4)),
                    stream.CopyWithTicket(new byte[size], memory, size, options: tag(5)),
                    stream.CopyWithTicket(pinned, memory, size, options: byKernel), stream.CopyWithTicket(batch),
                    prepared.LaunchWithTicket(stream, tag(6)), prepared.LaunchWithTicket(stream)
                };
                ulong[] tags = { 1, 2, 3, 4, 5, 9, 0, 6, ulong.MaxValue };
                for (int i = 0; i < tickets.Length; i++)
                    using (tickets[i])
                    {
                        tickets[i].Wait();
                        TicketInfo info = tickets[i].Info;
                        Test.Equal(info.Tag, tags[i], "tag " + i);
                        Test.Equal(info.BytesTotal, (ulong)size, "bytes " + i);
                        if (tags[i] == 9) Test.Equal(info.Route, Route.Kernel, "route");
                    }
            }
        }
    }

    public static void every_call_names_the_field_of_the_options_that_it_refuses()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(64))
        using (PinnedMemory pinned = ferry.AllocPinned(64))
        {
            CopyBatch batch = new CopyBatch();
            batch.Add(pinned, memory, 64);
            CopyBox box = new CopyBox(pinned, memory, 64);
            Piece[] pieces =
            {
                new Piece { Source = (ulong)(long)pinned.Address, Destination = memory.Address, Size = 64 },
            };
            byte[] pattern = { 7 };
            using (PreparedBatch prepared = stream.Prepare(batch))
            {
                Action<CopyOptions, Status, Field> refused = (options, status, field) =>
                {
                    Action[] calls =
                    {
                        () => ferry.Copy(pinned, memory, 64, options: options), () => ferry.Copy(batch, options),
                        () => ferry.CopyPieces(pieces, 1, options), () => ferry.Explain(box, options),
                        () => ferry.Fill(memory, pattern, 64, options: options),
                        () => ferry.ExplainFill(memory, pattern, 64, options: options),
                        () => stream.Copy(pinned, memory, 64, options: options), () => stream.Copy(batch, options),
                        () => stream.CopyAsync(pinned, memory, 64, options: options),
                        () => stream.CopyWithTicket(pinned, memory, 64, options: options),
                        () => stream.CopyWithTicket(batch, options),
                        () => stream.CopyPieces(pieces, 1, options),
                        () => stream.CopyPiecesWithTicket(pieces, 1, options),
                        () => stream.Fill(memory, pattern, 64, options: options),
                        () => stream.FillWithTicket(memory, pattern, 64, options: options),
                        () => stream.ExplainFill(memory, pattern, 64, options: options),
                        () => stream.Explain(box, options), () => stream.Explain(batch, options),
                        () => stream.Prepare(batch, options), () => prepared.Launch(stream, options),
                        () => prepared.LaunchWithTicket(stream, options)
                    };
                    for (int i = 0; i < calls.Length; i++)
                    {
                        FerryException error = Test.Throws<FerryException>(calls[i]);
                        Test.Equal(error.Status, status, field + " in call " + i);
                        Test.Equal(error.Side, Side.Options, field + " in call " + i);
                        Test.Equal(error.Field, field, "call " + i);
                    }
                };
                refused(new CopyOptions { Route = (Route)99 }, Status.InvalidArgument, Field.Route);
                refused(new CopyOptions { Route = Route.Buffered }, Status.Unsupported, Field.Route);
                refused(new CopyOptions { Priority = (Priority)(-1) }, Status.InvalidArgument, Field.Priority);
                refused(new CopyOptions { Priority = Priority.Background }, Status.Unsupported, Field.Priority);
                refused(new CopyOptions { SourceOrder = (SourceOrder)3 }, Status.InvalidArgument, Field.SourceOrder);
                refused(new CopyOptions { Flags = (CopyFlags)(1 << 20) }, Status.Flags, Field.Flags);
                refused(new CopyOptions { MaxSms = 1 << 16 }, Status.InvalidArgument, Field.MaxSms);
            }
        }
    }

    public static void options_of_the_instance_apply_to_calls_that_have_none()
    {
        CopyOptions staged = new CopyOptions { Route = Route.Staged, Tag = 7 };
        using (FerryInstance ferry = Test.Open(options => options.CopyOptions = staged))
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(64))
        {
            using (FerryTicket ticket = stream.CopyWithTicket(new byte[64], memory, 64))
            {
                Test.Equal(ticket.Info.Route, Route.Staged, "route");
                Test.Equal(ticket.Info.Tag, 7ul, "tag");
            }
            CopyOptions byDriver = new CopyOptions { Route = Route.Driver };
            using (FerryTicket ticket = stream.CopyWithTicket(new byte[64], memory, 64, options: byDriver))
            {
                Test.Equal(ticket.Info.Route, Route.Driver, "route with options");
                Test.Equal(ticket.Info.Tag, 0ul, "tag with options");
            }
            CopyBox box = new CopyBox(new byte[64], memory, 64);
            Test.Equal(ferry.Explain(box).Route, Route.Staged, "explained");
            Test.Equal(ferry.Explain(box, new CopyOptions()).Route, Route.Driver, "explained with options");
        }
        FerryException error = Test.Throws<FerryException>(
            () => Test.Open(options => options.CopyOptions = new CopyOptions { MaxSms = 1 << 16 }));
        Test.Equal(error.Side, Side.Options, "side");
        Test.Equal(error.Field, Field.MaxSms, "field");
    }

    public static void pieces_arrive()
    {
        const int count = 500;
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(count * 64))
        using (PinnedMemory pinned = ferry.AllocPinned(count * 64))
        {
            byte[] sent = Test.Pattern(count * 64, 3);
            pinned.Write(sent);
            Piece[] pieces = new Piece[count];
            for (int i = 0; i < count; i++)
            {
                pieces[i].Destination = memory.Address + (ulong)(64 * i);
                pieces[i].Source = (ulong)(long)pinned.Address + (ulong)(64 * (count - 1 - i));
                pieces[i].Size = 64;
            }
            ferry.CopyPieces(pieces, count / 2);
            stream.CopyPieces(pieces, count);
            ferry.CopyPieces(new Piece[0], 0);
            stream.Synchronize();
            byte[] back = Test.Download(ferry, memory, count * 64);
            for (int i = 0; i < back.Length; i++)
                Test.Equal(back[i], sent[64 * (count - 1 - i / 64) + i % 64], "byte " + i);
            Test.Throws<ArgumentOutOfRangeException>(() => ferry.CopyPieces(pieces, count + 1));
        }
    }

    public static void a_fill_repeats_its_pattern_in_its_box()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(1 << 12))
        {
            ferry.Fill(memory, new byte[] { 7 }, 1 << 12);
            ferry.Fill(((Place)memory).Pitched(64).At(8, 2), new byte[] { 1, 2, 3, 4 }, 16, 3);
            stream.Fill(memory.At(2048), new byte[] { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }, 160);
            stream.Synchronize();
            byte[] back = Test.Download(ferry, memory, 1 << 12);
            for (int i = 0; i < back.Length; i++)
            {
                int x = i % 64 - 8, y = i / 64 - 2, line = i - 2048;
                bool isInBox = x >= 0 && x < 16 && y >= 0 && y < 3, isInLine = line >= 0 && line < 160;
                int wanted = isInBox ? x % 4 + 1 : isInLine ? line % 16 + 1 : 7;
                Test.Equal((int)back[i], wanted, "byte " + i);
            }
            Test.Equal(Test.Throws<FerryException>(() => ferry.Fill(new byte[16], new byte[1], 16)).Status,
                       Status.Pageable, "a managed array");
            Test.Throws<ArgumentException>(() => ferry.Fill(memory, new byte[17], 17));
            Test.Throws<FerryException>(() => ferry.Fill(memory, new byte[1], 4097));
        }
    }

    public static void levels_and_layers_are_places()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryArray layers = ferry.CreateArray(ArrayFormat.Uint8, 4, 16, 16, 3, ArrayFlags.Layered))
        using (FerryMipmappedArray mipmaps = ferry.CreateMipmappedArray(ArrayFormat.Uint8, 4, 64, 64, 0, 3))
        {
            byte[] sent = Test.Pattern(1024, 4), back = new byte[1024];
            ferry.Copy(sent, layers.At(0, 0, 2), 64, 16);
            ferry.Copy(layers.At(0, 0, 2), back, 64, 16);
            Test.Same(back, sent, "layer");
            ferry.Copy(sent, mipmaps.Level(2), 64, 16);
            ferry.Copy(mipmaps.Level(2), back, 64, 16);
            Test.Same(back, sent, "level");
            Test.Throws<FerryException>(() => mipmaps.Level(3));
            Test.Throws<FerryException>(() => ferry.Copy(sent, mipmaps.Level(2), 68, 1));
        }
    }

    public static void memory_with_a_pitch_and_managed_memory_are_places()
    {
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory pitched = ferry.AllocDevicePitched(100, 8))
        using (DeviceMemory managed = ferry.AllocManaged(800))
        {
            byte[] sent = Test.Pattern(800, 4), back = new byte[800];
            ferry.Copy(sent, ((Place)pitched).Pitched(pitched.RowPitch), 100, 8);
            ferry.Copy(((Place)pitched).Pitched(pitched.RowPitch), managed, 100, 8);
            ferry.Copy(managed, back, 800);
            Test.Same(back, sent, "bytes");
        }
    }

    public static void an_explanation_and_a_device_have_names()
    {
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(4096))
        {
            CopyBox box = new CopyBox(new byte[4096], memory, 4096);
            Test.That(ferry.Explain(box).ToString().Contains("pageable to device 0"), ferry.Explain(box).ToString());
            Test.Equal(stream.Explain(box).Width, 4096ul, "width");
            byte[] pattern = { 1, 2 };
            Test.That(ferry.ExplainFill(memory, pattern, 64).ToString().Contains("cuMemsetD16Async"), "fill");
            Test.Equal(stream.ExplainFill(memory, pattern, 64).Blocks, Blocks.No, "fill on a stream");
            DeviceInfo device = ferry.GetDevice(0);
            Test.That(device.NameText.Contains("software") && ferry.IsSoftware, device.NameText);
            Test.That(device.PciAddressText.Length > 0, "address");
            Test.Equal(ferry.FindDevice(ferry.GetDevice(1).UuidBytes), 1, "device");
        }
    }

#if NETCOREAPP
    public static void spans_are_copied()
    {
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory memory = ferry.AllocDevice(4096))
        using (PinnedMemory pinned = ferry.AllocPinned(4096))
        {
            System.Span<int> numbers = pinned.AsSpan<int>();
            Test.Equal(numbers.Length, 1024, "length");
            for (int i = 0; i < 1024; i++) numbers[i] = i * i;
            ferry.Copy(pinned, memory, 4096);
            int[] back = new int[1024];
            ferry.Copy(memory, new System.Span<int>(back, 24, 1000));
            Test.Equal(back[1023], 999 * 999, "number");
            ferry.Copy(new System.ReadOnlySpan<int>(back), memory);
            Test.Equal(System.BitConverter.ToInt32(Test.Download(ferry, memory, 4096), 4092), 999 * 999, "number");
        }
    }
#endif
}
