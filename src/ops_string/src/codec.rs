//! Encodings of text, with ICU's names for them and its answers to what is no text.

use encoding_rs::{Decoder, DecoderResult, Encoding};

/// What stands for one character in an encoded text, or for bytes that are none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Piece {
    /// The code point; `None` for malformed bytes.
    pub(crate) code: Option<u32>,
    /// The number of bytes.
    pub(crate) len: usize,
}

/// An encoding that text is read from.
#[derive(Clone, Copy)]
pub(crate) enum Input {
    Utf8,
    Utf16(Order),
    Utf32(Order),
    Ascii,
    Latin1,
    /// One of the encodings of old.
    Legacy(&'static Encoding),
}

/// The order of the bytes of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Order {
    Big,
    Little,
    /// That of the mark at the beginning, which is no character then; big without a mark.
    Marked,
}

impl Input {
    /// The encoding of a name: case, and all but letters and digits, do not matter.
    pub(crate) fn from_name(name: &str) -> Option<Input> {
        let plain: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        Some(match &*plain {
            "utf8" => Input::Utf8,
            "utf16" => Input::Utf16(Order::Marked),
            "utf16be" => Input::Utf16(Order::Big),
            "utf16le" => Input::Utf16(Order::Little),
            "utf32" => Input::Utf32(Order::Marked),
            "utf32be" => Input::Utf32(Order::Big),
            "utf32le" => Input::Utf32(Order::Little),
            "usascii" | "ascii" | "ansix341968" | "iso646us" | "us" | "cp367" => Input::Ascii,
            "iso88591" | "latin1" | "l1" | "88591" | "ibm819" | "cp819" | "isoir100" => {
                Input::Latin1
            }
            "latin2" | "l2" => Input::Legacy(encoding_rs::ISO_8859_2),
            "cp1252" | "ibm5348" => Input::Legacy(encoding_rs::WINDOWS_1252),
            "cp936" | "windows936" => Input::Legacy(encoding_rs::GBK),
            _ => {
                let label = name.trim().replace('_', "-");
                let known = Encoding::for_label_no_replacement(label.as_bytes())
                    .or_else(|| Encoding::for_label_no_replacement(name.as_bytes()))?;
                Input::Legacy(known)
            }
        })
    }

    /// Calls `each` with the pieces of a text, in order.
    pub(crate) fn read(self, text: &[u8], each: &mut dyn FnMut(Piece)) {
        match self {
            Input::Utf8 => utf8(text, each),
            Input::Utf16(order) => utf16(text, order, each),
            Input::Utf32(order) => utf32(text, order, each),
            Input::Ascii => {
                let piece =
                    |&byte: &u8| Piece { code: byte.is_ascii().then_some(byte.into()), len: 1 };
                text.iter().map(piece).for_each(each);
            }
            Input::Latin1 => {
                text.iter().map(|&byte| Piece { code: Some(byte.into()), len: 1 }).for_each(each);
            }
            Input::Legacy(encoding) => {
                legacy(encoding.new_decoder_without_bom_handling(), text, each);
            }
        }
    }
}

/// Malformed bytes are as many as could have begun a character.
fn utf8(text: &[u8], each: &mut dyn FnMut(Piece)) {
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            each(Piece { code: Some(c.into()), len: c.len_utf8() });
        }
        if !chunk.invalid().is_empty() {
            each(Piece { code: None, len: chunk.invalid().len() });
        }
    }
}

fn utf16(text: &[u8], order: Order, each: &mut dyn FnMut(Piece)) {
    let marked = order == Order::Marked;
    let (order, mark) = match text {
        [0xfe, 0xff, ..] if marked => (Order::Big, 2),
        [0xff, 0xfe, ..] if marked => (Order::Little, 2),
        _ => (order, 0),
    };
    let unit = |at: usize| {
        let bytes = [*text.get(at)?, *text.get(at + 1)?];
        Some(match order {
            Order::Little => u16::from_le_bytes(bytes),
            _ => u16::from_be_bytes(bytes),
        })
    };
    let mut at = mark;
    // The mark counts to the first character.
    let mut before = mark;
    while at < text.len() {
        let units = [unit(at), unit(at + 2)];
        let (code, len) = match units {
            [Some(high @ 0xd800..0xdc00), Some(low @ 0xdc00..0xe000)] => {
                let code = 0x1_0000 + ((u32::from(high) & 0x3ff) << 10 | u32::from(low) & 0x3ff);
                (Some(code), 4)
            }
            [Some(0xd800..0xe000), _] => (None, 2),
            [Some(unit), _] => (Some(u32::from(unit)), 2),
            [None, _] => (None, text.len() - at),
        };
        each(Piece { code, len: len + before });
        before = 0;
        at += len;
    }
}

fn utf32(text: &[u8], order: Order, each: &mut dyn FnMut(Piece)) {
    let marked = order == Order::Marked;
    let (order, mark) = match text {
        [0, 0, 0xfe, 0xff, ..] if marked => (Order::Big, 4),
        [0xff, 0xfe, 0, 0, ..] if marked => (Order::Little, 4),
        _ => (order, 0),
    };
    let mut before = mark;
    for bytes in text[mark..].chunks(4) {
        let code = <[u8; 4]>::try_from(bytes).ok().map(|bytes| match order {
            Order::Little => u32::from_le_bytes(bytes),
            _ => u32::from_be_bytes(bytes),
        });
        let code = code.filter(|&code| char::from_u32(code).is_some());
        each(Piece { code, len: bytes.len() + before });
        before = 0;
    }
}

/// Bytes go in one by one, so that it is known which of them a character comes from.
fn legacy(mut decoder: Decoder, text: &[u8], each: &mut dyn FnMut(Piece)) {
    let mut pending = 0;
    let mut out = [0; 16];
    for index in 0..=text.len() {
        let last = index == text.len();
        let mut byte = if last { &[][..] } else { &text[index..=index] };
        pending += byte.len();
        loop {
            let (result, read, written) =
                decoder.decode_to_utf8_without_replacement(byte, &mut out, last);
            byte = &byte[read..];
            let decoded = std::str::from_utf8(&out[..written]).unwrap_or_default();
            for c in decoded.chars() {
                // What has not been read belongs to the next character, as all but the first of several
                // characters have no bytes of their own.
                let len = pending - byte.len();
                each(Piece { code: Some(c.into()), len });
                pending -= len;
            }
            match result {
                DecoderResult::Malformed(_, _) => {
                    let len = pending - byte.len();
                    each(Piece { code: None, len });
                    pending -= len;
                }
                DecoderResult::InputEmpty => break,
                DecoderResult::OutputFull => {}
            }
        }
    }
}

/// An encoding that text is written in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Output {
    Utf8,
    Utf16,
    Utf32,
}

impl Output {
    /// Of the values that attr `output_encoding` may have.
    pub(crate) fn from_name(name: &str) -> Output {
        match name {
            "UTF-16-BE" => Output::Utf16,
            "UTF-32-BE" => Output::Utf32,
            _ => Output::Utf8,
        }
    }

    /// Appends a code point. A surrogate, which no text has, is U+FFFD.
    pub(crate) fn push(self, code: u32, out: &mut Vec<u8>) {
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        match self {
            Output::Utf8 => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Output::Utf16 => {
                let units = c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .flat_map(|unit| unit.to_be_bytes())
                    .collect::<Vec<u8>>();
                out.extend_from_slice(&units);
            }
            Output::Utf32 => out.extend_from_slice(&u32::from(c).to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(name: &str, text: &[u8]) -> Vec<(i64, usize)> {
        let mut pieces = Vec::new();
        let encoding = Input::from_name(name).unwrap();
        encoding
            .read(text, &mut |piece| pieces.push((piece.code.map_or(-1, i64::from), piece.len)));
        assert_eq!(pieces.iter().map(|piece| piece.1).sum::<usize>(), text.len());
        pieces
    }

    #[test]
    fn characters_and_what_is_none() {
        let cases: [(&str, &[u8], &[(i64, usize)]); 14] = [
            ("UTF-8", b"\xef\xbb\xbfa", &[(0xfeff, 3), (97, 1)]),
            ("utf8", b"\xe4\xb8a\xf0\x9f\x98", &[(-1, 2), (97, 1), (-1, 3)]),
            ("UTF-8", b"\xc0\x80", &[(-1, 1), (-1, 1)]),
            ("UTF-16", b"\xff\xfea\0", &[(97, 4)]),
            ("UTF-16-BE", b"\0a\xd8\0\0b", &[(97, 2), (-1, 2), (98, 2)]),
            ("UTF-16BE", b"\xd8\0\xd8\0\xdc\0", &[(-1, 2), (0x1_0000, 4)]),
            ("UTF-16LE", b"a\0b", &[(97, 2), (-1, 1)]),
            ("UTF-32-BE", b"\0\0\0a\0\x11\0\0\0\0\xd8\0\0", &[(97, 4), (-1, 4), (-1, 4), (-1, 1)]),
            ("US-ASCII", b"a\x80", &[(97, 1), (-1, 1)]),
            ("LATIN1", b"\x80\xff", &[(0x80, 1), (0xff, 1)]),
            ("windows-1252", b"\x80\x81", &[(0x20ac, 1), (0x81, 1)]),
            ("ISO-8859-5", b"\xe9", &[(0x449, 1)]),
            (
                "Shift_JIS",
                b"\x82\xa0\x81 a\x82",
                &[(0x3042, 2), (-1, 1), (32, 1), (97, 1), (-1, 1)],
            ),
            ("EUC-JP", b"\xa4\xa2\xa4a", &[(0x3042, 2), (-1, 1), (97, 1)]),
        ];
        for (name, text, expected) in cases {
            assert_eq!(pieces(name, text), expected, "{name} {text:?}");
        }
        assert!(Input::from_name("NOPE").is_none());
    }

    #[test]
    fn code_points_are_written() {
        let written = |output: Output, code| {
            let mut out = Vec::new();
            output.push(code, &mut out);
            out
        };
        assert_eq!(written(Output::Utf16, 0x1_f600), [0xd8, 0x3d, 0xde, 0x00]);
        assert_eq!(written(Output::Utf32, 0x1_f600), [0, 1, 0xf6, 0]);
        assert_eq!(written(Output::Utf8, 0xd800), "\u{fffd}".as_bytes());
    }
}
