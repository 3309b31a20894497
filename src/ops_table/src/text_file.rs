//! `InitializeTableFromTextFile`: a table filled with the lines of a file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tfcore_base::{DType, Result, invalid, out_of_range, require};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry};
use tfcore_tensor::{Shape, TString, Tensor};

use crate::kernels::table_kernel;
use crate::shapes;
use crate::table::Table;

/// Attr `key_index` or `value_index`: the whole line.
const WHOLE_LINE: i64 = -2;
/// Attr `key_index` or `value_index`: the number of the line.
const LINE_NUMBER: i64 = -1;

pub(crate) fn register(r: &mut Registry) {
    // `InitializeTableFromTextFile(table_handle, filename: string)`: keys and values are columns of the file by attrs `key_index` and
    // `value_index`.
    r.ops(["InitializeTableFromTextFile", "InitializeTableFromTextFileV2"], |op| {
        op.shape(shapes::text_file).cpu(fill_kernel);
    });
}

/// Which parts of a file are keys and values.
struct Columns {
    key: i64,
    value: i64,
    delimiter: u8,
    /// The lines that count at most, if there is a limit.
    most: Option<usize>,
    /// The lines that are skipped.
    offset: usize,
}

fn fill_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let [delimiter] = *attrs.bytes("delimiter")? else {
        return Err(invalid!("delimiter should be only 1 char"));
    };
    let columns = Columns {
        key: attrs.int("key_index")?,
        value: attrs.int("value_index")?,
        delimiter,
        most: usize::try_from(attrs.int("vocab_size")?).ok(),
        offset: usize::try_from(attrs.int("offset")?).unwrap_or(0),
    };
    table_kernel(init, move |table, _, ctx| {
        table.check_fillable()?;
        columns.check(table)?;
        let name = ctx.input(1)?;
        require!(name.count() == 1, "filename should be a single string, but got {}", name.shape());
        let name = name.as_slice::<TString>()?[0].as_bytes();
        let (keys, values) = columns.read(ctx, name, table)?;
        table.fill(&keys, &values)
    })
}

impl Columns {
    fn check(&self, table: &Table) -> Result<()> {
        for (index, dtype, part) in
            [(self.key, table.key.dtype, "Key"), (self.value, table.value.dtype, "Value")]
        {
            let item = part.to_lowercase();
            require!(
                index != LINE_NUMBER || dtype == DType::INT64,
                "{part} index for line number requires table {item} dtype of int64, got {dtype}"
            );
            require!(
                index != WHOLE_LINE || dtype == DType::STRING || dtype.is_integer(),
                "{part} index for whole line requires string or integer table {item}, got {dtype}"
            );
        }
        Ok(())
    }

    /// The keys and the values of a file.
    fn read(&self, ctx: &OpContext<'_>, name: &[u8], table: &Table) -> Result<(Tensor, Tensor)> {
        let shown = String::from_utf8_lossy(name);
        let content = ctx.step().files.read(Path::new(OsStr::from_bytes(name)))?;
        if content.is_empty() {
            return Err(out_of_range!("Read less bytes than requested"));
        }
        let mut lines: Vec<&[u8]> = content.split(|&byte| byte == b'\n').collect();
        if content.ends_with(b"\n") {
            lines.pop();
        }
        let lines = lines.get(self.offset..).unwrap_or_default();
        let count = self.most.map_or(lines.len(), |most| most.min(lines.len()));
        let mut keys = Items::new(table.key.dtype)?;
        let mut values = Items::new(table.value.dtype)?;
        let mut position = 0;
        for (number, line) in lines[..count].iter().enumerate() {
            position += line.len() + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            require!(
                !line.is_empty(),
                "Invalid content in {shown}: empty line found at position {position}."
            );
            let fields: Vec<&[u8]> = match self.key.max(self.value) {
                0.. => line.split(|&byte| byte == self.delimiter).collect(),
                _ => Vec::new(),
            };
            let needed = self.key.max(self.value) + 1;
            require!(
                fields.len() as i64 >= needed,
                "Invalid number of columns in {shown} line {number} ({}) : expected at least {needed} got {}",
                String::from_utf8_lossy(line),
                fields.len()
            );
            for (index, items) in [(self.key, &mut keys), (self.value, &mut values)] {
                let number = number + self.offset;
                match index {
                    LINE_NUMBER => items.push(number.to_string().as_bytes(), number)?,
                    WHOLE_LINE => items.push(line, number)?,
                    index => items.push(fields[index as usize], number)?,
                }
            }
        }
        if let Some(most) = self.most {
            require!(
                count == most,
                "Invalid vocab_size in {shown}: expected {most} but got {count}"
            );
        }
        Ok((keys.into_tensor()?, values.into_tensor()?))
    }
}

/// The keys or the values of the lines.
enum Items {
    Text(Vec<TString>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
}

impl Items {
    fn new(dtype: DType) -> Result<Items> {
        Ok(match dtype {
            DType::STRING => Items::Text(Vec::new()),
            DType::INT32 => Items::Int32(Vec::new()),
            DType::INT64 => Items::Int64(Vec::new()),
            DType::FLOAT => Items::Float(Vec::new()),
            DType::DOUBLE => Items::Double(Vec::new()),
            dtype => return Err(invalid!("Data type {dtype} not supported.")),
        })
    }

    fn push(&mut self, text: &[u8], line: usize) -> Result<()> {
        match self {
            Items::Text(all) => all.push(text.into()),
            Items::Int32(all) => all.push(number(text, line, "int32")?),
            Items::Int64(all) => all.push(number(text, line, "int64")?),
            Items::Float(all) => all.push(number(text, line, "float")?),
            Items::Double(all) => all.push(number(text, line, "double")?),
        }
        Ok(())
    }

    fn into_tensor(self) -> Result<Tensor> {
        match self {
            Items::Text(all) => Tensor::from_slice(Shape::vector(all.len()), &all),
            Items::Int32(all) => Tensor::from_slice(Shape::vector(all.len()), &all),
            Items::Int64(all) => Tensor::from_slice(Shape::vector(all.len()), &all),
            Items::Float(all) => Tensor::from_slice(Shape::vector(all.len()), &all),
            Items::Double(all) => Tensor::from_slice(Shape::vector(all.len()), &all),
        }
    }
}

fn number<T: std::str::FromStr>(text: &[u8], line: usize, dtype: &str) -> Result<T> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    parsed.ok_or_else(|| {
        let text = String::from_utf8_lossy(text);
        invalid!("Field {text} in line {line} is not a valid {dtype}.")
    })
}
