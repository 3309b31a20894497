//! Glob patterns, as `fnmatch` with `FNM_PATHNAME` takes them in the C locale.

/// True if the whole `path` matches `pattern`.
///
/// `*`, `?` and `[...]` match no separator; `\` takes the next character literally. Components are matched one by one,
/// each in time proportional to the product of the lengths.
pub fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let mut patterns = pattern.split(|&c| c == b'/');
    let mut names = path.split(|&c| c == b'/');
    loop {
        match (patterns.next(), names.next()) {
            (None, None) => return true,
            (Some(pattern), Some(name)) if matches_component(pattern, name) => {}
            _ => return false,
        }
    }
}

fn matches_component(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // The last star seen and the part of the name that is left to what follows it. A mismatch lets the star take one
    // character more; an earlier star could give nothing that the last one cannot.
    let mut retry = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, n));
            continue;
        }
        let step = match name.get(n) {
            Some(&c) => match_one(&pattern[p..], c),
            None if p == pattern.len() => return true,
            None => return false,
        };
        match (step, retry) {
            (Some(len), _) => {
                p += len;
                n += 1;
            }
            (None, Some((after, start))) => {
                p = after;
                n = start + 1;
                retry = Some((after, n));
            }
            (None, None) => return false,
        }
    }
}

/// The length of the first item of the pattern, if it matches `c`.
fn match_one(pattern: &[u8], c: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'\\' => (*pattern.get(1)? == c).then_some(2),
        b'[' => match set(&pattern[1..], c) {
            Some((len, is_member)) => is_member.then_some(1 + len),
            // A bracket that is never closed stands for itself.
            None => (c == b'[').then_some(1),
        },
        literal => (literal == c).then_some(1),
    }
}

/// The length of the bracket expression behind its `[`, and true if it matches `c`.
fn set(pattern: &[u8], c: u8) -> Option<(usize, bool)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let mut found = false;
    let mut is_first = true;
    loop {
        let rest = &pattern[at..];
        if rest.first()? == &b']' && !is_first {
            return Some((at + 1, found != negated));
        }
        is_first = false;
        if let Some((len, is_member)) = class(rest, c) {
            found |= is_member;
            at += len;
            continue;
        }
        let (low, len) = literal(rest)?;
        at += len;
        let is_range = pattern.get(at) == Some(&b'-') && pattern.get(at + 1) != Some(&b']');
        let high = if is_range {
            let (high, len) = literal(pattern.get(at + 1..)?)?;
            at += 1 + len;
            high
        } else {
            low
        };
        found |= (low..=high).contains(&c);
    }
}

fn literal(pattern: &[u8]) -> Option<(u8, usize)> {
    match *pattern.first()? {
        b'\\' => Some((*pattern.get(1)?, 2)),
        c => Some((c, 1)),
    }
}

/// The length of a class such as `[:digit:]`, and true if it has `c`.
fn class(pattern: &[u8], c: u8) -> Option<(usize, bool)> {
    let rest = pattern.strip_prefix(b"[:")?;
    let len = rest.windows(2).position(|end| end == b":]")?;
    let is_member = match &rest[..len] {
        b"alnum" => c.is_ascii_alphanumeric(),
        b"alpha" => c.is_ascii_alphabetic(),
        b"blank" => c == b' ' || c == b'\t',
        b"cntrl" => c.is_ascii_control(),
        b"digit" => c.is_ascii_digit(),
        b"graph" => c.is_ascii_graphic(),
        b"lower" => c.is_ascii_lowercase(),
        b"print" => c.is_ascii_graphic() || c == b' ',
        b"punct" => c.is_ascii_punctuation(),
        b"space" => c.is_ascii_whitespace() || c == 0x0b,
        b"upper" => c.is_ascii_uppercase(),
        b"xdigit" => c.is_ascii_hexdigit(),
        _ => return None,
    };
    Some((2 + len + 2, is_member))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with the answers of glibc's `fnmatch(pattern, path, FNM_PATHNAME)`.
    #[test]
    fn patterns_match_as_fnmatch_has_it() {
        for (pattern, path, expected) in [
            ("", "", true),
            ("a", "a", true),
            ("a", "b", false),
            ("*", "", true),
            ("*", "abc", true),
            ("*", "a/b", false),
            ("a*c", "abc", true),
            ("a*c", "abcb", false),
            ("*b*", "abc", true),
            ("a*b*c", "aXbYc", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("?", "", false),
            ("[abc]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[^a]", "a", false),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[\\]]", "]", true),
            ("[[:digit:]]", "7", true),
            ("[[:digit:]x]", "x", true),
            ("[[:digit:]]", "a", false),
            ("*/b", "a/b", true),
            ("a/*/c", "a/x/c", true),
            ("a/*", "a/.hidden", true),
            ("a\\", "a", false),
        ] {
            let result = matches(pattern.as_bytes(), path.as_bytes());
            assert_eq!(result, expected, "{pattern} {path}");
        }
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let pattern = b"a*".repeat(2000);
        let mut path = vec![b'a'; 20_000];
        assert!(matches(&pattern, &path));
        path.push(b'b');
        assert!(!matches(&[&pattern[..], b"c"].concat(), &path));
    }
}
