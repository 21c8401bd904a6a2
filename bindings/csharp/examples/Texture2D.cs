// Copies a box of a large image into a box of a 2D array (a texture), and back. x and width are in bytes.
using System;
using Ferry;

static class Texture2D
{
    const int Texel = 4, ImageWidth = 640, ImageHeight = 480;

    static int Main()
    {
        byte[,] image = new byte[ImageHeight, ImageWidth * Texel], copy = new byte[ImageHeight, ImageWidth * Texel];
        for (int y = 0; y < ImageHeight; y++)
            for (int x = 0; x < ImageWidth * Texel; x++)
                image[y, x] = (byte)(x + 7 * y);

        using (FerryInstance ferry = FerryInstance.Open(new FerryOptions { Driver = Driver.Auto }))
        using (FerryArray texture = ferry.CreateArray(ArrayFormat.Uint8, 4, 256, 256))
        {
            const int width = 64 * Texel, height = 32; // the box: 64 by 32 texels
            Place from = ((Place)image).Pitched(ImageWidth * Texel).At(100 * Texel, 50);
            Place to = ((Place)copy).Pitched(ImageWidth * Texel).At(100 * Texel, 50);
            Place box = texture.At(16 * Texel, 8);
            ferry.Copy(from, box, width, height);
            ferry.Copy(box, to, width, height);

            for (int y = 0; y < ImageHeight; y++)
                for (int x = 0; x < ImageWidth * Texel; x++)
                {
                    bool isInside = y >= 50 && y < 50 + height && x >= 100 * Texel && x < 100 * Texel + width;
                    if (copy[y, x] != (isInside ? image[y, x] : 0)) return 1;
                }
            try { ferry.Copy(from, texture.At(255 * Texel, 8), width, height); }
            catch (FerryException error) { Console.WriteLine("refused: " + error.Message); }
            Console.WriteLine("a box of 64 by 32 texels went through the array");
            return 0;
        }
    }
}
