// Files: what is read and written, and how failures are reported.
using System;
using System.IO;
using System.Threading.Tasks;
using Ferry;
using FileInfo = Ferry.FileInfo;
using FileOptions = Ferry.FileOptions;

static class FileTests
{
    /// <summary>A folder that is removed at the end of its test.</summary>
    sealed class Folder : IDisposable
    {
        internal readonly string Path = System.IO.Path.Combine(System.IO.Path.GetTempPath(),
                                                               "ferry-fähre-" + Guid.NewGuid());

        internal Folder() { Directory.CreateDirectory(Path); }

        internal string File(string name, byte[] contents = null)
        {
            string path = System.IO.Path.Combine(Path, name);
            if (contents != null) System.IO.File.WriteAllBytes(path, contents);
            return path;
        }

        public void Dispose() { Directory.Delete(Path, true); }
    }

    static FileOptions With(FileFlags flags) { return new FileOptions { Flags = flags }; }

    const FileFlags toWrite = FileFlags.Write | FileFlags.Create | FileFlags.Truncate;

    static byte[] Part(byte[] bytes, int offset, int count)
    {
        byte[] part = new byte[count];
        Array.Copy(bytes, offset, part, 0, count);
        return part;
    }

    static FerryException Fails(Status status, Side side, Field field, Action action)
    {
        FerryException error = Test.Throws<FerryException>(action);
        Test.Equal(error.Status, status, error.Message);
        Test.Equal(error.Side, side, error.Message);
        Test.Equal(error.Field, field, error.Message);
        return error;
    }

    public static void a_box_goes_to_a_file_and_back_and_changes_nothing_around_it()
    {
        using (Folder folder = new Folder())
        using (FerryInstance ferry = Test.Open(options => options.Checks = Checks.Full))
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory from = ferry.AllocDevice(700 * 40 * 3))
        using (DeviceMemory to = ferry.AllocDevice(700 * 40 * 3))
        {
            byte[] sent = Test.Pattern(from.Size, 1), before = Test.Pattern(50000, 2);
            ferry.Copy(sent, from, from.Size);
            Action<Place, Place> now = (source, destination) => ferry.Copy(source, destination, 300, 20, 2);
            Action<Place, Place> ticket = (source, destination) =>
            {
                using (FerryTicket one = stream.CopyWithTicket(source, destination, 300, 20, 2))
                {
                    one.Wait();
                    Test.Equal(one.Info.BytesDone, 300ul * 20 * 2, "bytes");
                    Test.Equal(one.Info.FileError, 0, "error");
                }
            };
            Action<Place, Place> task = (source, destination) =>
                stream.CopyAsync(source, destination, 300, 20, 2).Wait();
            foreach (Action<Place, Place> copy in new[] { now, ticket, task })
            {
                string path = folder.File("boxes", before);
                using (FerryFile file = ferry.OpenFile(path, With(FileFlags.Read | FileFlags.Write)))
                {
                    Place there = file.At(4096).Pitched(500, 24).At(7, 2, 1);
                    ferry.Fill(to, new byte[1], to.Size);
                    copy(((Place)from).Pitched(700, 40).At(11, 5, 1), there);
                    copy(there, ((Place)to).Pitched(700, 40).At(11, 5, 1));
                }
                byte[] expected = new byte[sent.Length], expectedFile = (byte[])before.Clone();
                for (int z = 0; z < 2; z++)
                    for (int y = 0; y < 20; y++)
                    {
                        int row = ((z + 1) * 40 + y + 5) * 700 + 11;
                        Array.Copy(sent, row, expected, row, 300);
                        Array.Copy(sent, row, expectedFile, 4096 + ((z + 1) * 24 + y + 2) * 500 + 7, 300);
                    }
                Test.Same(File.ReadAllBytes(path), expectedFile, "file");
                Test.Same(Test.Download(ferry, to, to.Size), expected, "memory");
            }
        }
    }

    public static void a_file_is_made_and_its_old_bytes_are_removed()
    {
        using (Folder folder = new Folder())
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory memory = ferry.AllocDevice(1000))
        {
            string path = folder.File("new");
            ferry.Fill(memory, new byte[] { 7 }, 1000);
            for (int i = 0; i < 2; i++)
            {
                using (FerryFile file = ferry.OpenFile(path, With(toWrite)))
                {
                    FileInfo info = file.Info;
                    Test.Equal(info.Size, 0ul, "size");
                    Test.Equal(info.Flags, FileFlags.Write, "flags");
                    ferry.Copy(memory, file.At(5), 1000);
                    Test.Equal(file.Info.Size, 1005ul, "size");
                }
                byte[] expected = new byte[1005], found = File.ReadAllBytes(path);
                for (int at = 5; at < 1005; at++) expected[at] = 7;
                Test.Equal(found.Length, 1005, "size");
                Test.Same(found, expected, "file");
                File.WriteAllBytes(path, new byte[5000]);
            }
        }
    }

    public static void pieces_of_a_file_are_one_copy()
    {
        using (Folder folder = new Folder())
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(300000))
        {
            byte[] content = Test.Pattern(300000, 3);
            FerryFile file = ferry.OpenFile(folder.File("tensors", content));
            int[] offsets = { 299999, 0, 1000, 1007, 100000 }, sizes = { 1, 1000, 7, 65536, 12345 };
            Piece[] pieces = new Piece[offsets.Length];
            for (int i = 0; i < pieces.Length; i++)
                pieces[i] = new Piece { Destination = memory.Address + (ulong)(i * 70000 % 290000),
                                        Source = (ulong)offsets[i], Size = (ulong)sizes[i] };
            foreach (bool isAsync in new[] { false, true })
            {
                ferry.Fill(memory, new byte[1], memory.Size);
                if (!isAsync) ferry.CopyPieces(pieces, pieces.Length, null, file);
                else using (FerryTicket ticket = stream.CopyPiecesWithTicket(pieces, pieces.Length, null, file))
                    ticket.Wait();
                for (int i = 0; i < pieces.Length; i++)
                    Test.Same(Test.Download(ferry, memory.At(i * 70000 % 290000), sizes[i]),
                              Part(content, offsets[i], sizes[i]), "piece " + i);
            }
            FerryException error = Fails(Status.OutOfBounds, Side.Source, Field.Offset, () =>
            {
                pieces[2].Source = 300000 - 6;
                ferry.CopyPieces(pieces, pieces.Length, null, file);
            });
            Test.Equal(error.Item, Item.Piece, "item");
            Test.Equal(error.Index, 2L, "index");
            file.Dispose();
            Test.Throws<ObjectDisposedException>(() => ferry.CopyPieces(pieces, 1, null, file));
            Test.Throws<ObjectDisposedException>(() => stream.CopyPiecesWithTicket(pieces, 1, null, file));
        }
    }

    public static void a_file_of_the_program_keeps_its_position_and_may_be_closed()
    {
        using (Folder folder = new Folder())
        using (FerryInstance ferry = Test.Open())
        using (DeviceMemory memory = ferry.AllocDevice(100))
        {
            byte[] content = Test.Pattern(1000, 4);
            string path = folder.File("own", content);
            FileStream own = new FileStream(path, FileMode.Open, FileAccess.ReadWrite);
            own.Position = 50;
            using (FerryFile file = ferry.OpenFile(own.SafeFileHandle))
            {
                Test.Equal(file.Info.Size, 1000ul, "size");
                Test.Equal(file.Info.Flags, FileFlags.Read | FileFlags.Write, "flags");
                ferry.Copy(file.At(3), memory, 100);
                Test.Same(Test.Download(ferry, memory, 100), Part(content, 3, 100), "read");
                Test.Equal(own.Position, 50L, "position");
                own.Dispose();
                ferry.Copy(memory, file.At(200), 100);
            }
            Test.Same(Part(File.ReadAllBytes(path), 200, 100), Part(content, 3, 100), "written");
            Test.Throws<ObjectDisposedException>(() => ferry.OpenFile(own.SafeFileHandle));
        }
    }

    // The size of every file in sysfs is 4096 bytes, but this file ends earlier.
    public static void a_file_that_ends_early_fails_its_ticket_its_task_and_its_copy()
    {
        const string path = "/sys/devices/system/cpu/online";
        ulong end = (ulong)File.ReadAllText(path).Length;
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(100))
        using (FerryFile file = ferry.OpenFile(path))
        using (FerryTicket ticket = stream.CopyWithTicket(file.At(1), memory, 100))
        {
            Action task = () =>
            {
                try { stream.CopyAsync(file.At(1), memory, 100).Wait(); }
                catch (AggregateException errors) { throw errors.InnerException; }
            };
            foreach (Action action in new[] { ticket.Wait, task, () => ferry.Copy(file.At(1), memory, 100) })
            {
                FerryException error = Test.Throws<FerryException>(action);
                Test.Equal(error.Status, Status.File, error.Message);
                Test.Equal(error.FileError, Constants.FileEnded, error.Message);
                Test.Equal(error.Limit, end, error.Message);
            }
            TicketInfo info = ticket.Info;
            Test.Equal(info.Status, Status.File, "status");
            Test.Equal(info.FileError, Constants.FileEnded, "error");
            Test.Equal(info.FileOffset, end, "offset");
            stream.Synchronize(); // the stream goes on
            ticket.Cancel(); // it has ended
            using (DeviceMemory other = ferry.AllocDevice(100))
            using (FerryTicket ofMemory = stream.CopyWithTicket(memory, other, 100))
                Fails(Status.Unsupported, Side.None, Field.Ticket, ofMemory.Cancel);
        }
    }

    public static void what_cannot_be_opened_or_copied_is_named()
    {
        using (Folder folder = new Folder())
        using (FerryInstance ferry = Test.Open())
        using (FerryStream stream = ferry.CreateStream())
        using (DeviceMemory memory = ferry.AllocDevice(100))
        {
            FerryException error = Fails(Status.File, Side.None, Field.Path, () => ferry.OpenFile(folder.File("none")));
            Test.Equal(error.FileError, 2, error.Message);
            error = Fails(Status.Handle, Side.None, Field.Path, () => ferry.OpenFile(folder.Path));
            Test.Equal(error.FileError, 0, error.Message);
            Fails(Status.Flags, Side.Options, Field.Flags,
                  () => ferry.OpenFile(folder.File("new"), With(FileFlags.Create)));
            Test.Throws<ArgumentException>(() => ferry.OpenFile("a\0b"));
            using (FerryFile file = ferry.OpenFile(folder.File("short", new byte[1000])))
            {
                error = Fails(Status.OutOfBounds, Side.Source, Field.Offset,
                              () => ferry.Copy(file.At(901), memory, 100));
                Test.Equal(error.Value, 1001ul, error.Message);
                Test.Equal(error.Limit, 1000ul, error.Message);
                Fails(Status.Handle, Side.Destination, Field.File, () => ferry.Copy(memory, file, 100));
                byte[] here = { 1, 2, 3 };
                ferry.Copy(file, here, 3);
                Test.Equal(here[0] + here[1] + here[2], 0, "bytes of the file");
                Fails(Status.InvalidArgument, Side.None, Field.Ticket, () => stream.Copy(file, memory, 100));
                Test.Throws<ArgumentOutOfRangeException>(() => file.At(-1));
                Place place = file;
                file.Dispose();
                Test.Throws<ObjectDisposedException>(() => ferry.Copy(place, memory, 100));
                Test.Throws<ObjectDisposedException>(() => { FileInfo unused = file.Info; });
            }
        }
    }

    public static void an_instance_closes_files_that_were_not_disposed()
    {
        using (Folder folder = new Folder())
        {
            string path = folder.File("left", new byte[100]);
            Func<int> count = () =>
            {
                int links = 0;
                foreach (string link in Directory.GetFiles("/proc/self/fd"))
                    if (Test.ReadLink(link) == path) links++;
                return links;
            };
            using (FerryInstance ferry = Test.Open())
            {
                ferry.OpenFile(path);
                Test.Equal(count(), 1, "open files");
            }
            Test.Equal(count(), 0, "open files");
        }
    }
}
