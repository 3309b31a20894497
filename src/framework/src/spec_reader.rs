//! The reader of op registrations: words, numbers, strings, and values in the text format of protobuf.

use tfcore_base::{DType, Result, invalid};
use tfcore_proto as proto;
use tfcore_tensor::PartialShape;

use crate::{AttrList, AttrValue, Attrs, Func, TensorAttr};

pub(crate) struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Reader<'a> {
        Reader { rest: text }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes `token` if it comes next.
    pub(crate) fn accept(&mut self, token: &str) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes `word` if it comes next and is not the beginning of a longer one.
    pub(crate) fn accept_word(&mut self, word: &str) -> bool {
        let before = self.rest;
        match self.word() {
            Ok(next) if next == word => true,
            _ => {
                self.rest = before;
                false
            }
        }
    }

    pub(crate) fn expect(&mut self, token: &str) -> Result<()> {
        if self.accept(token) {
            Ok(())
        } else {
            Err(invalid!("Expected '{token}' at '{}'", self.rest))
        }
    }

    pub(crate) fn expect_end(&mut self) -> Result<()> {
        self.skip_blanks();
        if self.rest.is_empty() { Ok(()) } else { Err(invalid!("Extra '{}'", self.rest)) }
    }

    pub(crate) fn at_quote(&mut self) -> bool {
        self.skip_blanks();
        self.rest.starts_with(['\'', '"'])
    }

    /// Letters, digits and underscores.
    pub(crate) fn word(&mut self) -> Result<&'a str> {
        self.skip_blanks();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(invalid!("Expected a name at '{}'", self.rest));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(word)
    }

    /// A word that begins with a letter or an underscore.
    pub(crate) fn identifier(&mut self) -> Result<String> {
        let word = self.word()?;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(invalid!("'{word}' is no name"));
        }
        Ok(word.to_string())
    }

    fn number(&mut self) -> &'a str {
        self.skip_blanks();
        let is_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
        let end = self.rest.find(|c| !is_number(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        number
    }

    pub(crate) fn integer(&mut self) -> Result<i64> {
        let text = self.number();
        text.parse().map_err(|_| invalid!("'{text}' is no integer"))
    }

    fn float(&mut self) -> Result<f32> {
        let text = self.number();
        text.trim_end_matches('f')
            .parse()
            .or_else(|_| text.parse())
            .map_err(|_| invalid!("'{text}' is no number"))
    }

    /// A quoted string with C escapes.
    pub(crate) fn string(&mut self) -> Result<Vec<u8>> {
        self.skip_blanks();
        let bytes = self.rest.as_bytes();
        let quote = match bytes.first() {
            Some(&quote @ (b'\'' | b'"')) => quote,
            _ => return Err(invalid!("Expected a string at '{}'", self.rest)),
        };
        let mut value = Vec::new();
        let mut at = 1;
        loop {
            match bytes.get(at) {
                None => return Err(invalid!("String without an end: {}", self.rest)),
                Some(&byte) if byte == quote => break,
                Some(b'\\') => at = unescape(bytes, at + 1, &mut value)?,
                Some(&byte) => {
                    value.push(byte);
                    at += 1;
                }
            }
        }
        // A quote is one byte of ASCII, so that what follows begins at a character.
        self.rest = &self.rest[at + 1..];
        Ok(value)
    }

    fn bool(&mut self) -> Result<bool> {
        match self.word()? {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(invalid!("'{other}' is no bool")),
        }
    }

    fn dtype(&mut self) -> Result<DType> {
        let word = self.word()?;
        DType::from_name(word).ok_or_else(|| invalid!("'{word}' is no type"))
    }

    /// The default value of an attr of the given type.
    pub(crate) fn attr_value(&mut self, type_name: &str) -> Result<AttrValue> {
        if let Some(item) = type_name.strip_prefix("list(").and_then(|t| t.strip_suffix(')')) {
            return self.list_value(item);
        }
        Ok(match type_name {
            "string" => AttrValue::string(self.string()?),
            "int" => AttrValue::Int(self.integer()?),
            "float" => AttrValue::Float(self.float()?),
            "bool" => AttrValue::Bool(self.bool()?),
            "type" => AttrValue::Type(self.dtype()?),
            "shape" => AttrValue::shape(self.shape()?),
            "tensor" => AttrValue::Tensor(std::sync::Arc::new(self.tensor()?)),
            "func" => AttrValue::Func(std::sync::Arc::new(self.func()?)),
            other => return Err(invalid!("No default for attr type '{other}'")),
        })
    }

    fn list_value(&mut self, item: &str) -> Result<AttrValue> {
        Ok(AttrValue::list(match item {
            "string" => {
                AttrList::String(self.items(|reader| reader.string().map(|s| s.as_slice().into()))?)
            }
            "int" => AttrList::Int(self.items(Reader::integer)?),
            "float" => AttrList::Float(self.items(Reader::float)?),
            "bool" => AttrList::Bool(self.items(Reader::bool)?),
            "type" => AttrList::Type(self.items(Reader::dtype)?),
            "shape" => AttrList::Shape(self.items(Reader::shape)?),
            "func" => AttrList::Func(self.items(Reader::func)?),
            other => return Err(invalid!("No default for lists of '{other}'")),
        }))
    }

    /// `[a, b, c]`
    fn items<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect("[")?;
        let mut items = Vec::new();
        while !self.accept("]") {
            items.push(item(self)?);
            if !self.accept(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(items)
    }

    /// Fields of a message in braces; `field` reads the value behind a name.
    fn message(&mut self, mut field: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        self.expect("{")?;
        while !self.accept("}") {
            let name = self.identifier()?;
            self.accept(":");
            field(self, &name)?;
            self.accept(",");
        }
        Ok(())
    }

    /// `{ dim { size: 2 } unknown_rank: false }`
    fn shape(&mut self) -> Result<PartialShape> {
        let mut dims = Vec::new();
        let mut unknown = false;
        self.message(|reader, name| match name {
            "unknown_rank" => reader.bool().map(|value| unknown = value),
            "dim" => {
                let mut size = 0;
                reader.message(|reader, name| match name {
                    "size" => reader.integer().map(|value| size = value),
                    other => Err(invalid!("A dim has no field '{other}'")),
                })?;
                dims.push(size);
                Ok(())
            }
            other => Err(invalid!("A shape has no field '{other}'")),
        })?;
        if unknown { Ok(PartialShape::unknown()) } else { PartialShape::from_i64s(&dims) }
    }

    /// `{ dtype: DT_UINT8 tensor_shape { dim { size: 4 } } int_val: [255, 0, 0, 255] }`
    fn tensor(&mut self) -> Result<TensorAttr> {
        let mut message = proto::TensorProto::default();
        self.message(|reader, name| {
            match name {
                "dtype" => message.dtype = reader.dtype()?.to_i32(),
                "tensor_shape" => {
                    message.tensor_shape = Some(crate::shape_to_proto(&reader.shape()?));
                }
                "int_val" => {
                    for value in reader.repeated(Reader::integer)? {
                        let value = i32::try_from(value)
                            .map_err(|_| invalid!("{value} does not fit int32"))?;
                        message.int_val.push(value);
                    }
                }
                "int64_val" => message.int64_val.extend(reader.repeated(Reader::integer)?),
                "float_val" => message.float_val.extend(reader.repeated(Reader::float)?),
                "bool_val" => message.bool_val.extend(reader.repeated(Reader::bool)?),
                "string_val" => {
                    let strings = reader.repeated(Reader::string)?;
                    message.string_val.extend(strings.into_iter().map(bytes::Bytes::from));
                }
                other => {
                    return Err(invalid!("A tensor default with field '{other}' is not supported"));
                }
            }
            Ok(())
        })?;
        TensorAttr::from_proto(message)
    }

    fn repeated<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.skip_blanks();
        if self.rest.starts_with('[') { self.items(item) } else { Ok(vec![item(self)?]) }
    }

    /// `{ name: 'F' }`, or `''` for none.
    fn func(&mut self) -> Result<Func> {
        if self.at_quote() {
            let name = String::from_utf8_lossy(&self.string()?).into_owned();
            return Ok(Func { name, attrs: Attrs::new() });
        }
        let mut func = Func::default();
        self.message(|reader, name| match name {
            "name" => {
                func.name = String::from_utf8_lossy(&reader.string()?).into_owned();
                Ok(())
            }
            other => Err(invalid!("A function default with field '{other}' is not supported")),
        })?;
        Ok(func)
    }
}

/// Reads what follows a backslash at `at` and returns where to go on.
fn unescape(bytes: &[u8], at: usize, value: &mut Vec<u8>) -> Result<usize> {
    let Some(&byte) = bytes.get(at) else {
        return Err(invalid!("String without an end"));
    };
    let simple = match byte {
        b'n' => Some(b'\n'),
        b't' => Some(b'\t'),
        b'r' => Some(b'\r'),
        b'\\' | b'\'' | b'"' => Some(byte),
        _ => None,
    };
    if let Some(byte) = simple {
        value.push(byte);
        return Ok(at + 1);
    }
    let digits: Vec<u8> =
        bytes[at..].iter().copied().take(3).take_while(|b| (b'0'..=b'7').contains(b)).collect();
    let code = digits.iter().fold(0u32, |code, digit| code * 8 + u32::from(digit - b'0'));
    match u8::try_from(code) {
        Ok(code) if !digits.is_empty() => {
            value.push(code);
            Ok(at + digits.len())
        }
        _ => Err(invalid!("Unknown escape in a string")),
    }
}
