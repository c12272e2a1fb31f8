// Writes subjects.txt: names as DER, and what X500Principal.getName() makes of them. Each line is the DER and
// the UTF-8 bytes of the text, in hexadecimal.
//
//     java Subjects.java > subjects.txt

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;

public class Subjects {
    static byte[] join(byte[]... parts) {
        var out = new ByteArrayOutputStream();
        for (byte[] part : parts) out.writeBytes(part);
        return out.toByteArray();
    }

    static byte[] tlv(int tag, byte[]... parts) {
        byte[] content = join(parts);
        var out = new ByteArrayOutputStream();
        out.write(tag);
        if (content.length < 128) {
            out.write(content.length);
        } else if (content.length < 256) {
            out.write(0x81);
            out.write(content.length);
        } else {
            out.write(0x82);
            out.write(content.length >> 8);
            out.write(content.length & 0xff);
        }
        out.writeBytes(content);
        return out.toByteArray();
    }

    static byte[] oid(String hex) {
        return tlv(6, HexFormat.of().parseHex(hex));
    }

    static byte[] ava(String oid, int tag, byte[] value) {
        return tlv(0x30, oid(oid), tlv(tag, value));
    }

    static byte[] ava(String oid, int tag, String value) {
        return ava(oid, tag, value.getBytes(StandardCharsets.UTF_8));
    }

    static byte[] rdn(byte[]... avas) {
        return tlv(0x31, avas);
    }

    static byte[] name(byte[]... rdns) {
        return tlv(0x30, rdns);
    }

    static void print(byte[] name) {
        String text = new X500Principal(name).getName();
        HexFormat hex = HexFormat.of();
        System.out.println(hex.formatHex(name) + " " + hex.formatHex(text.getBytes(StandardCharsets.UTF_8)));
    }

    static final String CN = "550403", MAIL = "2a864886f70d010901", DC = "0992268993f22c640119", UID = "0992268993f22c640101";
    static final int UTF8 = 0x0c, PRINTABLE = 0x13, T61 = 0x14, IA5 = 0x16, BMP = 0x1e, UNIVERSAL = 0x1c, GENERAL = 0x1b;

    public static void main(String[] args) {
        print(name());
        print(name(rdn(ava("550406", PRINTABLE, "US")), rdn(ava("55040a", UTF8, "Org")), rdn(ava("55040b", UTF8, "Unit")), rdn(ava(CN, UTF8, "broker 1"))));
        // Every type that has a keyword somewhere in Java, and some that have none.
        for (String oid : new String[] {"550403", "550404", "550405", "550406", "550407", "550408", "550409", "55040a", "55040b", "55040c", "55040d",
                "550411", "55042a", "55042b", "55042c", "55042d", "55042e", "550461", MAIL, "2a864886f70d010902", "2a864886f70d010908", DC, UID,
                "2b0601040182372a", "2b060104012a020b0201", "00", "2a", "50", "27", "28", "4f", "8837", "883703", "87ffffffffffffff7f",
                "2b81fffffffffffffffffffffffffffffffff7f"
                    .substring(0, 24)}) {
            try {
                print(name(rdn(ava(oid, UTF8, "x"))));
            } catch (IllegalArgumentException refused) {
                // Java does not read it.
            }
        }
        // Every kind of string, and what is none.
        for (int tag : new int[] {UTF8, PRINTABLE, T61, IA5, GENERAL, UNIVERSAL, 0x12, 0x1a, 0x19, 0x15}) print(name(rdn(ava(CN, tag, "abc"))));
        for (int tag : new int[] {BMP, UNIVERSAL, GENERAL, T61}) {
            print(name(rdn(ava(CN, tag, new byte[] {0, 'a', 0, 'b'}))));
            print(name(rdn(ava(CN, tag, new byte[] {0, 0, 0, 'a'}))));
            print(name(rdn(ava(CN, tag, new byte[] {(byte) 0xe9, 'a', 0, (byte) 0xe9}))));
        }
        print(name(rdn(tlv(0x30, oid(CN), tlv(2, new byte[] {5})))));
        print(name(rdn(tlv(0x30, oid(CN), tlv(3, new byte[] {0, 5})))));
        print(name(rdn(tlv(0x30, oid(CN), tlv(1, new byte[] {(byte) 0xff})))));
        print(name(rdn(tlv(0x30, oid(CN), tlv(5)))));
        print(name(rdn(tlv(0x30, oid(CN), tlv(4, new byte[] {1, 2})))));
        print(name(rdn(ava(MAIL, IA5, "ada@example.org"))));
        print(name(rdn(ava(DC, IA5, "org")), rdn(ava(DC, IA5, "example")), rdn(ava(UID, UTF8, "ada"))));
        // Several attributes in one part, in the order of DER and not.
        print(name(rdn(ava(CN, UTF8, "a"), ava("55040b", UTF8, "b")), rdn(ava("55040a", UTF8, "c"))));
        print(name(rdn(ava("55040b", UTF8, "b"), ava(CN, UTF8, "a"))));
        print(name(rdn(ava(CN, UTF8, "b"), ava(CN, UTF8, "a"))));
        // What is escaped.
        for (String value : new String[] {"", " ", "  ", " a", "a ", "  a  b  ", "a  b", "#a", "a#b", " #a", "a,b", "a+b", "a\"b", "a\\b", "a<b>c", "a;b", "a=b",
                ",", "\\", "\r", "\ra\r", "a\rb", "\na\n", "a\tb", "\t", "\u0000", "a\u0000b", "\u0000 ", " \u0000", "\u007f", "\u0001", "caf\u00e9", "\u00e9",
                "cafe\u0301", "\u3042", "\ud83d\ude00", "\ud83d\ude00 ", " \u00a0", "\u2028", "\u0085", "a/b", "a'b(c)d.e-f:g?h", "*", "a@b", "$&|~`^{}[]_!%",
                "\ufffd", "\ufeff", "a,b+c=d;e<f>g#h\"i\\j", "\\,", "\\ ", "CN=x\\,O=y", "RULE:x"}) {
            print(name(rdn(ava(CN, UTF8, value))));
        }
        // Bytes that are no UTF-8.
        for (String hex : new String[] {"80", "c3", "c328", "c0af", "c1bf", "e2", "e228a1", "e282", "e28228", "e0809f", "e080", "ed", "eda0", "eda080", "edbfbf", "eda041",
                "eda08041", "eda0c3a9", "41eda080edb08042", "edb0", "ed9fbf", "ee8080", "f0", "f09f", "f09f98", "f09f9841", "f09f41", "f0808080", "f08080", "f4908080",
                "f48fbfbf", "f5808080", "f8", "fc", "fe", "ff", "ffff", "61ff62", "f09f9880", "c3a9ff", "20ff20", "e9", "e9e8", "eda0802c", "f0419f98"}) {
            byte[] bytes = HexFormat.of().parseHex(hex);
            print(name(rdn(ava(CN, UTF8, bytes))));
            print(name(rdn(ava(CN, PRINTABLE, bytes))));
        }
        print(name(rdn(ava(CN, UTF8, "x".repeat(200))), rdn(ava("55040a", UTF8, "y".repeat(300)))));
    }
}
