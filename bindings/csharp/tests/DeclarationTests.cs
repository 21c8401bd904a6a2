// The runtime finds the types, constants and functions of ferry.json in FerryNative.cs.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using Ferry;

static class DeclarationTests
{
    static Type Find(string name)
    {
        Type type = typeof(Native).Assembly.GetType("Ferry." + name);
        if (type == null) throw new Exception("Ferry." + name + " is missing");
        return type;
    }

    public static void structs_have_the_sizes_and_offsets_of_the_description()
    {
        foreach (string line in Facts.Structs)
        {
            string[] words = line.Split(' ');
            Type type = Find(words[0]);
            Test.Equal(Marshal.SizeOf(type), int.Parse(words[1]), "size of " + type);
            Test.Equal((uint)type.GetField("SizeOf").GetRawConstantValue(), uint.Parse(words[1]), type + ".SizeOf");
            FieldInfo[] fields = type.GetFields(BindingFlags.Instance | BindingFlags.Public);
            Test.Equal(fields.Length, words.Length - 2, "fields of " + type);
            foreach (string word in words.Skip(2))
            {
                string[] parts = word.Split(':');
                FieldInfo field = type.GetField(parts[0]);
                Test.That(field != null, type + "." + parts[0] + " is missing");
                Test.Equal(Marshal.OffsetOf(type, parts[0]).ToInt32(), int.Parse(parts[1]), type + "." + parts[0]);
                Type kind = field.FieldType.IsEnum ? Enum.GetUnderlyingType(field.FieldType) : field.FieldType;
                int size = kind.IsPointer || kind == typeof(IntPtr) ? IntPtr.Size : Marshal.SizeOf(kind);
                Test.Equal(size, int.Parse(parts[2]), "size of " + type + "." + parts[0]);
            }
        }
    }

    public static void all_functions_are_declared_and_found_in_the_library()
    {
        Dictionary<string, MethodInfo> declared = new Dictionary<string, MethodInfo>();
        foreach (MethodInfo method in typeof(Native).GetMethods(BindingFlags.Static | BindingFlags.Public))
            declared.Add(method.Name, method);
        foreach (string line in Facts.Functions)
        {
            string[] words = line.Split(' ');
            Test.That(declared.ContainsKey(words[0]), words[0] + " is not declared");
            MethodInfo method = declared[words[0]];
            Test.Equal(method.GetParameters().Length, int.Parse(words[1]), "parameters of " + words[0]);
            Marshal.Prelink(method); // throws if the library has no such function
        }
        Test.Equal(declared.Count, Facts.Functions.Length, "declared functions");
    }

    public static void all_parameters_are_blittable()
    {
        foreach (MethodInfo method in typeof(Native).GetMethods(BindingFlags.Static | BindingFlags.Public))
            foreach (ParameterInfo parameter in method.GetParameters())
            {
                Type type = parameter.ParameterType;
                Test.That(type.IsPointer || type.IsEnum || type == typeof(IntPtr) || type == typeof(float) ||
                          type.IsPrimitive && type != typeof(bool) && type != typeof(char),
                          method.Name + ": " + parameter);
            }
    }

    public static void constants_have_the_values_of_the_description()
    {
        foreach (string line in Facts.Constants)
        {
            string[] words = line.Split(' ');
            FieldInfo field = Find(words[0]).GetField(words[1]);
            Test.That(field != null, words[0] + "." + words[1] + " is missing");
            Test.Equal(Convert.ToInt64(field.GetRawConstantValue()), long.Parse(words[2]), words[0] + "." + words[1]);
        }
    }

    public static void callbacks_use_the_calling_convention_of_c()
    {
        foreach (string line in Facts.Callbacks)
        {
            string[] words = line.Split(' ');
            Type type = Find(words[0]);
            Test.Equal(type.GetMethod("Invoke").GetParameters().Length, int.Parse(words[1]), "parameters of " + type);
            Attribute attribute = Attribute.GetCustomAttribute(type, typeof(UnmanagedFunctionPointerAttribute));
            Test.Equal(((UnmanagedFunctionPointerAttribute)attribute).CallingConvention,
                       CallingConvention.Cdecl, "calling convention of " + type);
        }
    }

    public static void the_header_is_as_new_as_the_library()
    {
        int header = Constants.VersionMajor * 10000 + Constants.VersionMinor * 100 + Constants.VersionPatch;
        Test.Equal(FerryInstance.LibraryVersion, header, "version");
    }
}
