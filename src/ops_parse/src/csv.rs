//! `DecodeCSV`.

use std::str::FromStr;

use tfcore_base::{DType, Elem, Result, internal, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `DecodeCSV(records: string, record_defaults: OUT_TYPE) -> output: OUT_TYPE`, a tensor for each column.
    r.op("DecodeCSV").shape(csv_shape).cpu(csv_kernel);
}

fn csv_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for default in &ctx.inputs()[1..] {
        let shape = shape_ops::with_rank_at_most(default, 1)?;
        require!(
            shape.count().is_none_or(|count| count <= 1),
            "Shape of a default must be a length-0 or length-1 vector, or a scalar."
        );
    }
    for output in 0..ctx.num_outputs() {
        ctx.set_output(output, ctx.input(0).clone());
    }
    Ok(())
}

struct Csv {
    delimiter: u8,
    quotes: bool,
    na_value: Vec<u8>,
    /// The columns that are read; all without any.
    selected: Vec<i64>,
}

fn csv_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let [delimiter] = *attrs.bytes("field_delim")? else {
        return Err(invalid!("field_delim should be only 1 char"));
    };
    let selected = attrs.ints("select_cols")?.to_vec();
    require!(
        selected.is_empty() || selected.len() == init.output_dtypes.len(),
        "select_cols should match output size"
    );
    require!(
        selected.windows(2).all(|pair| pair[0] < pair[1]),
        "select_cols should be strictly increasing indices"
    );
    require!(
        selected.first().is_none_or(|&first| first >= 0),
        "select_cols should be non-negative"
    );
    let csv = Csv {
        delimiter,
        quotes: attrs.bool("use_quote_delim")?,
        na_value: attrs.bytes("na_value")?.to_vec(),
        selected,
    };
    kernel(move |ctx| csv.decode(ctx))
}

impl Csv {
    fn decode(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let columns = ctx.num_outputs();
        for column in 0..columns {
            let default = ctx.input(column + 1)?;
            require!(default.rank() <= 1, "Each record default should be at most rank 1");
            require!(
                default.count() < 2,
                "There should only be 1 default per field but field {column} has {}",
                default.count()
            );
        }
        let records = ctx.input(0)?;
        let mut outputs = (0..columns)
            .map(|column| ctx.allocate_output(column, records.shape().clone()))
            .collect::<Result<Vec<Tensor>>>()?;
        let mut fields = Vec::with_capacity(columns);
        for (row, record) in records.as_slice::<TString>()?.iter().enumerate() {
            fields.clear();
            self.fields(record.as_bytes(), &mut fields)?;
            require!(
                fields.len() == columns,
                "Expect {columns} fields but have {} in record {row}",
                fields.len()
            );
            for (column, field) in fields.iter().enumerate() {
                let default = ctx.input(column + 1)?;
                let text = (!field.is_empty() && *field != self.na_value).then_some(&**field);
                require!(
                    text.is_some() || default.count() == 1,
                    "Field {column} is required but missing in record {row}!"
                );
                let cell = Cell { row, column, text, default };
                cell.write(&mut outputs[column])?;
            }
        }
        for (column, output) in outputs.into_iter().enumerate() {
            ctx.set_output(column, output);
        }
        Ok(())
    }

    /// Appends the fields of a record that are selected.
    fn fields(&self, record: &[u8], fields: &mut Vec<Vec<u8>>) -> Result<()> {
        let Some(&last) = record.last() else {
            return Ok(());
        };
        let ends = |at: usize| record.get(at).is_none_or(|&byte| byte == self.delimiter);
        let mut number = 0;
        let mut at = 0;
        while at < record.len() {
            if matches!(record[at], b'\n' | b'\r') {
                at += 1;
                continue;
            }
            let mut field = Vec::new();
            if self.quotes && record[at] == b'"' {
                at += 1;
                while at + 1 < record.len() && !(record[at] == b'"' && ends(at + 1)) {
                    if record[at] == b'"' {
                        require!(
                            record[at + 1] == b'"',
                            "Quote inside a string has to be escaped by another quote"
                        );
                        at += 1;
                    }
                    field.push(record[at]);
                    at += 1;
                }
                require!(
                    record.get(at) == Some(&b'"') && ends(at + 1),
                    "Quoted field has to end with quote followed by delim or end"
                );
                at += 2;
            } else {
                while !ends(at) {
                    let byte = record[at];
                    require!(
                        !(matches!(byte, b'\n' | b'\r') || self.quotes && byte == b'"'),
                        "Unquoted fields cannot have quotes/CRLFs inside"
                    );
                    field.push(byte);
                    at += 1;
                }
                at += 1;
            }
            if self.includes(fields.len(), number) {
                fields.push(field);
                if fields.len() == self.selected.len() {
                    return Ok(());
                }
            }
            number += 1;
        }
        if last == self.delimiter && self.includes(fields.len(), number) {
            fields.push(Vec::new());
        }
        Ok(())
    }

    /// True if field `number` is the next to be read after `read` others.
    fn includes(&self, read: usize, number: i64) -> bool {
        self.selected.is_empty() || self.selected.get(read) == Some(&number)
    }
}

struct Cell<'a> {
    row: usize,
    column: usize,
    /// `None` for the default.
    text: Option<&'a [u8]>,
    default: &'a Tensor,
}

impl Cell<'_> {
    fn write(&self, output: &mut Tensor) -> Result<()> {
        match output.dtype() {
            DType::STRING => self.put(output, |text| Ok(TString::from(text))),
            DType::INT32 => self.put(output, |text| self.number::<i32>(text)),
            DType::INT64 => self.put(output, |text| self.number::<i64>(text)),
            DType::FLOAT => self.put(output, |text| self.number::<f32>(text)),
            DType::DOUBLE => self.put(output, |text| self.number::<f64>(text)),
            dtype => {
                Err(internal!("csv: data type {dtype} not supported in field {}", self.column))
            }
        }
    }

    fn put<T: Elem>(&self, output: &mut Tensor, parse: impl Fn(&[u8]) -> Result<T>) -> Result<()> {
        output.as_mut_slice::<T>()?[self.row] = match self.text {
            Some(text) => parse(text)?,
            None => self.default.as_slice::<T>()?[0].clone(),
        };
        Ok(())
    }

    fn number<T: Elem + FromStr>(&self, text: &[u8]) -> Result<T> {
        let parsed = std::str::from_utf8(text).ok().and_then(|text| text.trim_ascii().parse().ok());
        parsed.ok_or_else(|| {
            invalid!(
                "Field {} in record {} is not a valid {}: {}",
                self.column,
                self.row,
                T::DTYPE,
                String::from_utf8_lossy(text)
            )
        })
    }
}
