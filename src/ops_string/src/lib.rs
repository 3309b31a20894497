//! Ops on strings.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod base64;
mod codec;
mod compressed;
mod each;
mod format;
mod hash;
mod join;
mod ngrams;
mod number;
mod raw;
mod re2;
mod reduce_join;
mod regex;
mod scripts;
mod split;
mod substr;
mod template;
mod text;
mod unicode;

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    base64::register(r);
    compressed::register(r);
    hash::register(r);
    join::register(r);
    ngrams::register(r);
    number::register(r);
    raw::register(r);
    reduce_join::register(r);
    regex::register(r);
    split::register(r);
    substr::register(r);
    template::register(r);
    text::register(r);
    unicode::register(r);
}
