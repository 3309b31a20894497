//! Regular expressions in the syntax of RE2, which is TensorFlow's, compiled by crate `regex`.
//!
//! The two match alike. Where their syntaxes differ, the pattern is rewritten: classes such as `\d` and `\b` are ASCII's, brackets
//! do not nest, `\Q...\E` quotes, `\C` is any byte, a brace that begins no repetition is itself. What RE2 does not accept is an
//! error with its text.

use ::regex::bytes::{Regex, RegexBuilder};

/// The largest count of a repetition, and of nested ones together.
const MAX_REPEAT: u32 = 1000;

/// A class that no character is of.
const NOTHING: &str = r"[^\x00-\x{10FFFF}]";

const CATEGORIES: &str = "Any C Cc Cf Co L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl \
                          Zp Zs";
const POSIX: &str =
    "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit";

/// Compiles a pattern; if `whole`, one that has to match all of a text.
///
/// # Errors
/// RE2's description of what is wrong with the pattern.
pub(crate) fn compile(pattern: &[u8], whole: bool) -> Result<Regex, String> {
    let pattern = std::str::from_utf8(pattern).map_err(|_| "invalid UTF-8".to_string())?;
    let translated = translate(pattern)?;
    let translated = if whole { format!(r"\A(?:{translated})\z") } else { translated };
    RegexBuilder::new(&translated)
        .nest_limit(1100)
        .build()
        .map_err(|_| "pattern too large - compile failed".to_string())
}

/// The pattern in the syntax of crate `regex`.
fn translate(pattern: &str) -> Result<String, String> {
    let mut translator = Translator { whole: pattern, at: 0, out: String::new() };
    translator.run()?;
    Ok(translator.out)
}

struct Translator<'p> {
    whole: &'p str,
    /// How far the pattern has been read, in bytes.
    at: usize,
    out: String,
}

/// What a group has come to.
#[derive(Default)]
struct Group {
    /// True if the last thing can be repeated.
    repeatable: bool,
    /// Where the repetition operator that has just been read begins.
    repeated_at: Option<usize>,
    /// How often the last thing is repeated by repetitions in it.
    last: u32,
    /// The largest such number of anything in the group.
    most: u32,
}

impl Group {
    fn atom(&mut self, repeats: u32) {
        *self = Group {
            repeatable: true,
            repeated_at: None,
            last: repeats,
            most: self.most.max(repeats),
        };
    }
}

impl<'p> Translator<'p> {
    fn rest(&self) -> &'p str {
        &self.whole[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn run(&mut self) -> Result<(), String> {
        let mut outer: Vec<Group> = Vec::new();
        let mut group = Group::default();
        while let Some(c) = self.peek() {
            let start = self.at;
            match c {
                '(' => {
                    if self.open()? {
                        outer.push(std::mem::take(&mut group));
                    } else {
                        group.repeated_at = None;
                    }
                }
                ')' => {
                    self.at += 1;
                    let inner = std::mem::take(&mut group);
                    group = outer.pop().ok_or_else(|| format!("unexpected ): {}", self.whole))?;
                    group.atom(inner.most.max(1));
                    self.out.push(')');
                }
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                    group = Group { most: group.most, ..Group::default() };
                }
                '*' | '+' | '?' => {
                    self.at += 1;
                    self.repeat(start, &mut group)?;
                }
                '{' => match self.counts() {
                    Some((min, max)) => {
                        let most = max.unwrap_or(min).max(min);
                        let together = group.last.max(1).saturating_mul(most.max(1));
                        let text = &self.whole[start..self.at];
                        if group.repeatable
                            && group.repeated_at.is_none()
                            && (most > MAX_REPEAT
                                || max.is_some_and(|max| max < min)
                                || together > MAX_REPEAT)
                        {
                            return Err(format!("invalid repetition size: {text}"));
                        }
                        self.repeat(start, &mut group)?;
                        group.last = together;
                        group.most = group.most.max(together);
                    }
                    None => {
                        self.at += 1;
                        self.literal('{');
                        group.atom(1);
                    }
                },
                '[' => {
                    self.class()?;
                    group.atom(1);
                }
                '\\' => {
                    if self.escape()? {
                        group.atom(1);
                    }
                }
                '.' | '^' | '$' => {
                    self.at += 1;
                    self.out.push(c);
                    group.atom(1);
                }
                other => {
                    self.at += other.len_utf8();
                    self.literal(other);
                    group.atom(1);
                }
            }
        }
        match outer.is_empty() {
            true => Ok(()),
            false => Err(format!("missing ): {}", self.whole)),
        }
    }

    /// A repetition operator that begins at `start` and has been read but for a `?` that makes it lazy.
    fn repeat(&mut self, start: usize, group: &mut Group) -> Result<(), String> {
        let operator = &self.whole[start..self.at];
        if !group.repeatable {
            return Err(format!("no argument for repetition operator: {operator}"));
        }
        self.eat("?");
        if let Some(before) = group.repeated_at {
            return Err(format!("bad repetition operator: {}", &self.whole[before..self.at]));
        }
        self.out.push_str(&self.whole[start..self.at]);
        group.repeated_at = Some(start);
        Ok(())
    }

    /// Reads `{2}`, `{2,}` or `{2,3}`; `None`, and nothing is read, if what follows is none of them.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let (inner, _) = self.rest().strip_prefix('{')?.split_once('}')?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().unwrap_or(u32::MAX))
        };
        let counts = match inner.split_once(',') {
            None => number(inner).map(|count| (count, Some(count)))?,
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        self.at += inner.len() + 2;
        Some(counts)
    }

    /// Reads what a `(` begins. Returns true for a group, false for flags that hold from there on.
    fn open(&mut self) -> Result<bool, String> {
        let start = self.at;
        self.at += 1;
        if !self.eat("?") {
            self.out.push('(');
            return Ok(true);
        }
        if self.eat("P<") {
            let bad =
                |end: usize| format!("invalid named capture group: {}", &self.whole[start..end]);
            let Some(len) = self.rest().find('>') else {
                return Err(bad(self.whole.len()));
            };
            let name = &self.rest()[..len];
            let is_valid = |c: char| c.is_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_valid) {
                return Err(bad(self.at + len + 1));
            }
            self.at += len + 1;
            // The group is known by its number alone.
            self.out.push('(');
            return Ok(true);
        }
        if self.rest().starts_with("P=") || self.rest().starts_with("P>") {
            return Err(format!(
                "invalid named capture group: {}",
                &self.whole[start..self.at + 2]
            ));
        }
        let (mut negated, mut any) = (false, false);
        loop {
            let Some(c) = self.next() else {
                return Err(format!("missing ): {}", self.whole));
            };
            match c {
                'i' | 'm' | 's' | 'U' => any = true,
                '-' if !negated => (negated, any) = (true, false),
                ':' | ')' if any || !negated => {
                    let text = &self.whole[start..self.at];
                    // Crate `regex` has no empty list of flags.
                    if text != "(?)" {
                        self.out.push_str(text);
                    }
                    return Ok(c == ':');
                }
                _ => {
                    let text = &self.whole[start..self.at];
                    return Err(format!("invalid perl operator: {text}"));
                }
            }
        }
    }

    /// Reads what a backslash begins outside of brackets. Returns false if that comes to nothing.
    fn escape(&mut self) -> Result<bool, String> {
        let rest = self.rest();
        if self.eat("\\Q") {
            let quoted = self.rest().split("\\E").next().unwrap_or("");
            self.at += quoted.len();
            self.eat("\\E");
            quoted.chars().for_each(|c| self.literal(c));
            return Ok(!quoted.is_empty());
        }
        let simple = match rest.as_bytes().get(1) {
            Some(b'b') => r"(?-u:\b)",
            Some(b'B') => r"(?-u:\B)",
            Some(b'A') => r"\A",
            Some(b'z') => r"\z",
            Some(b'C') => r"(?s-u:.)",
            _ => {
                if let Some(class) = self.perl_class()? {
                    self.out.push('[');
                    self.out.push_str(&class);
                    self.out.push(']');
                } else {
                    let code = self.escaped_code()?;
                    self.code_point(code);
                }
                return Ok(true);
            }
        };
        self.at += 2;
        self.out.push_str(simple);
        Ok(true)
    }

    /// Reads `\d` and its like, `\pN` and `\p{Greek}`: what stands for them between brackets.
    fn perl_class(&mut self) -> Result<Option<String>, String> {
        let start = self.at;
        let class = match self.rest().as_bytes().get(1) {
            Some(b'd') => "0-9",
            Some(b'D') => "[^0-9]",
            Some(b's') => r"\t\n\f\r\x20",
            Some(b'S') => r"[^\t\n\f\r\x20]",
            Some(b'w') => "0-9A-Za-z_",
            Some(b'W') => "[^0-9A-Za-z_]",
            Some(b'p' | b'P') => {
                self.at += 1;
                return self.unicode_class(start).map(Some);
            }
            _ => return Ok(None),
        };
        self.at += 2;
        Ok(Some(class.to_string()))
    }

    fn unicode_class(&mut self, start: usize) -> Result<String, String> {
        let mut negated = self.next() == Some('P');
        let bad =
            |end: usize| format!("invalid character class range: {}", &self.whole[start..end]);
        let name = if self.eat("{") {
            let Some(len) = self.rest().find('}') else {
                return Err(bad(self.whole.len()));
            };
            let name = &self.rest()[..len];
            self.at += len + 1;
            name
        } else {
            let at = self.at;
            self.next();
            &self.whole[at..self.at]
        };
        let name = name.strip_prefix('^').inspect(|_| negated = !negated).unwrap_or(name);
        if name == "Cs" {
            // No text has surrogates.
            return Ok(if negated { r"\x00-\x{10FFFF}" } else { NOTHING }.to_string());
        }
        let letter = if negated { 'P' } else { 'p' };
        if CATEGORIES.split(' ').any(|category| category == name) {
            return Ok(format!("\\{letter}{{{name}}}"));
        }
        let class = format!("\\{letter}{{sc={name}}}");
        let is_script = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        match is_script && Regex::new(&class).is_ok() {
            true => Ok(class),
            false => Err(bad(self.at)),
        }
    }

    /// Reads an escape sequence that stands for one character.
    fn escaped_code(&mut self) -> Result<u32, String> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.next() else {
            return Err("trailing \\".to_string());
        };
        let octal = |c: Option<char>| c.and_then(|c| c.to_digit(8));
        let code = match c {
            '1'..='7' if octal(self.peek()).is_none() => None,
            '0'..='7' => {
                let mut code = octal(Some(c)).unwrap_or(0);
                for _ in 0..2 {
                    if let Some(digit) = octal(self.peek()) {
                        self.at += 1;
                        code = code * 8 + digit;
                    }
                }
                Some(code)
            }
            'x' => self.hex_code(),
            'n' => Some(0x0a),
            'r' => Some(0x0d),
            't' => Some(0x09),
            'a' => Some(0x07),
            'f' => Some(0x0c),
            'v' => Some(0x0b),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(u32::from(c)),
            _ => None,
        };
        code.ok_or_else(|| format!("invalid escape sequence: {}", &self.whole[start..self.at]))
    }

    fn hex_code(&mut self) -> Option<u32> {
        let hex = |c: char| c.to_digit(16);
        if self.eat("{") {
            let mut code = 0;
            let mut digits = 0;
            while let Some(digit) = self.peek().and_then(hex) {
                self.at += 1;
                digits += 1;
                code = code * 16 + digit;
                if code > 0x10_ffff {
                    return None;
                }
            }
            return (digits > 0 && self.eat("}")).then_some(code);
        }
        let high = self.next().and_then(hex)?;
        let low = self.next().and_then(hex)?;
        Some(high * 16 + low)
    }

    /// Reads a class in brackets.
    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        let missing = format!("missing ]: {}", &self.whole[start..]);
        self.at += 1;
        self.out.push('[');
        if self.eat("^") {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            if self.rest().is_empty() {
                return Err(missing);
            }
            if !first && self.eat("]") {
                self.out.push(']');
                return Ok(());
            }
            first = false;
            if self.rest().starts_with("[:")
                && let Some(len) = self.rest().find(":]")
            {
                let text = &self.rest()[..len + 2];
                let name = text[2..len].trim_start_matches('^');
                if !POSIX.split(' ').any(|known| known == name)
                    || text[2..len].len() > name.len() + 1
                {
                    return Err(format!("invalid character class range: {text}"));
                }
                self.out.push_str(text);
                self.at += text.len();
                continue;
            }
            if self.rest().starts_with('\\')
                && let Some(class) = self.perl_class()?
            {
                self.out.push_str(&class);
                continue;
            }
            let range_at = self.at;
            let low = self.class_code(&missing)?;
            let mut high = low;
            let rest = self.rest().as_bytes();
            if rest.len() >= 2 && rest[0] == b'-' && rest[1] != b']' {
                self.at += 1;
                high = self.class_code(&missing)?;
            }
            if high < low {
                let text = &self.whole[range_at..self.at];
                return Err(format!("invalid character class range: {text}"));
            }
            self.class_range(low, high);
        }
    }

    fn class_code(&mut self, missing: &str) -> Result<u32, String> {
        if self.rest().starts_with('\\') {
            return self.escaped_code();
        }
        self.next().map(u32::from).ok_or_else(|| missing.to_string())
    }

    fn class_range(&mut self, low: u32, high: u32) {
        let is_surrogate = |code: u32| (0xd800..0xe000).contains(&code);
        let low = if is_surrogate(low) { 0xe000 } else { low };
        let high = if is_surrogate(high) { 0xd7ff } else { high };
        if low <= high {
            self.out.push_str(&format!("\\x{{{low:X}}}-\\x{{{high:X}}}"));
        } else {
            self.out.push_str(NOTHING);
        }
    }

    fn code_point(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) => self.literal(c),
            None => self.out.push_str(NOTHING),
        }
    }

    fn literal(&mut self, c: char) {
        if c.is_ascii() && !c.is_ascii_alphanumeric() {
            self.out.push_str(&format!("\\x{:02X}", u32::from(c)));
        } else {
            self.out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn classes_are_of_ascii_and_brackets_do_not_nest() {
        let cases: [(&str, &str, bool); 17] = [
            (r"\d+", "12", true),
            (r"\d+", "١٢", false),
            (r"\W", "é", true),
            (r"[^\d]", "é", true),
            (r"[[a]+", "[a[", true),
            (r"[a&&b]+", "a&b", true),
            (r"[]a]+", "]a", true),
            (r"[a-]+", "a-", true),
            (r"\Qa.b\E+", "a.bb", true),
            (r"x{,2}", "x{,2}", true),
            (r"\101", "A", true),
            (r"\<a", "<a", true),
            (r"(?P<n>a|)b", "b", true),
            (r"[[:alpha:]]", "é", false),
            (r"\p{Greek}\pN", "λ1", true),
            (r"a.b", "a\nb", false),
            (r"(?s)a.b", "a\nb", true),
        ];
        for (pattern, text, expected) in cases {
            let regex = compile(pattern.as_bytes(), true).unwrap();
            assert_eq!(regex.is_match(text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(compile(br"a\Cb", true).unwrap().is_match(b"a\xffb"));
        assert!(!compile(b"a.b", true).unwrap().is_match(b"a\xffb"));
    }

    #[test]
    fn errors_are_those_of_re2() {
        let cases = [
            ("(", "missing ): ("),
            ("[", "missing ]: ["),
            ("a)", "unexpected ): a)"),
            ("a**", "bad repetition operator: **"),
            ("a{2}{3}", "bad repetition operator: {2}{3}"),
            ("a{1001}", "invalid repetition size: {1001}"),
            ("((x{100}){100}){100}", "invalid repetition size: {100}"),
            ("*", "no argument for repetition operator: *"),
            ("(?i)*", "no argument for repetition operator: *"),
            (r"\y", r"invalid escape sequence: \y"),
            (r"\1", r"invalid escape sequence: \1"),
            (r"\x{110000}", r"invalid escape sequence: \x{110000"),
            ("\\", "trailing \\"),
            ("[z-a]", "invalid character class range: z-a"),
            ("[[:foo:]]", "invalid character class range: [:foo:]"),
            (r"\pX", r"invalid character class range: \pX"),
            ("(?x)a", "invalid perl operator: (?x"),
            ("(?=a)", "invalid perl operator: (?="),
            ("(?P<n", "invalid named capture group: (?P<n"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(compile(pattern.as_bytes(), false).unwrap_err(), expected);
        }
    }
}
