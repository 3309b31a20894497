//! `CSVDataset`: the rows of files of comma-separated values.

use std::path::PathBuf;
use std::sync::Arc;

use tfcore_base::{DType, Error, Result, invalid, require};
use tfcore_framework::Registry;
use tfcore_tensor::{TString, Tensor};

use crate::args::{Args, dataset_kernel, handle_shape};
use crate::dataset::{Element, Iter, IterContext, Rule};
use crate::records::{Bytes, Compression, file_names, open, stream_error};

pub(crate) fn register(r: &mut Registry) {
    // `CSVDatasetV2(filenames: string, compression_type: string, buffer_size: int64, header: bool, field_delim: string,
    // use_quote_delim: bool, na_value: string, select_cols: int64, record_defaults: output_types,
    // exclude_cols: int64) -> handle`.
    r.ops(["CSVDataset", "CSVDatasetV2", "ExperimentalCSVDataset"], |op| {
        op.shape(handle_shape).cpu(|init| dataset_kernel(init, csv));
    });
}

struct Csv {
    names: Vec<PathBuf>,
    compression: Compression,
    has_header: bool,
    delimiter: u8,
    has_quotes: bool,
    /// Stands for a missing value, as an empty field does.
    missing: Vec<u8>,
    selected: Vec<i64>,
    excluded: Vec<i64>,
    /// Scalars or vectors of one element; empty for fields that must have a value.
    defaults: Vec<Tensor>,
    dtypes: Vec<DType>,
}

fn csv(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let dtypes = args.attrs().dtypes("output_types")?.to_vec();
    let defaults = args.tensors("record_defaults")?;
    for (index, default) in defaults.iter().enumerate() {
        require!(
            default.count() <= 1,
            "There should only be 1 default per field but field {index} has {}",
            default.count()
        );
    }
    let names = file_names(args)?;
    let delimiter = args.text("field_delim")?;
    let [delimiter] = delimiter[..] else {
        return Err(invalid!("field_delim should be only 1 char"));
    };
    let buffer: i64 = args.scalar("buffer_size")?;
    require!(buffer > 0, "buffer_size should be positive");
    let compression = Compression::named(&args.text("compression_type")?)?;
    let selected = columns(args, "select_cols")?;
    require!(
        selected.is_empty() || selected.len() == dtypes.len(),
        "select_cols should match output size"
    );
    check_columns(&selected, "select_cols")?;
    let excluded = match args.has_input("exclude_cols") {
        true => columns(args, "exclude_cols")?,
        false => Vec::new(),
    };
    require!(
        selected.is_empty() || excluded.is_empty(),
        "Either select_cols or exclude_cols should be empty"
    );
    check_columns(&excluded, "exclude_cols")?;
    Ok(Arc::new(Csv {
        names,
        compression,
        has_header: args.scalar("header")?,
        delimiter,
        has_quotes: args.scalar("use_quote_delim")?,
        missing: args.text("na_value")?,
        selected,
        excluded,
        defaults,
        dtypes,
    }))
}

fn columns(args: &Args<'_, '_>, name: &str) -> Result<Vec<i64>> {
    let tensor = args.tensor(name)?;
    require!(tensor.rank() == 1, "`{name}` must be a vector.");
    tensor.to_i64s()
}

fn check_columns(columns: &[i64], name: &str) -> Result<()> {
    require!(columns.is_sorted_by(|a, b| a < b), "{name} should be strictly increasing indices");
    require!(
        columns.first().is_none_or(|&first| first >= 0),
        "{name} should be non-negative indices"
    );
    Ok(())
}

impl Rule for Csv {
    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let (mut file, mut bytes): (usize, Option<Bytes>) = (0, None);
        Iter::new(move |ctx| {
            loop {
                if let Some(open) = &mut bytes {
                    if let Some(row) = self.row(open, true)? {
                        require!(
                            row.len() == self.dtypes.len(),
                            "Expect {} fields but have {} in record",
                            self.dtypes.len(),
                            row.len()
                        );
                        return Ok(Some(row));
                    }
                    (bytes, file) = (None, file + 1);
                }
                let Some(name) = self.names.get(file) else {
                    return Ok(None);
                };
                let open = bytes.insert(open(ctx, name, self.compression)?);
                if self.has_header && self.row(open, false)?.is_none() {
                    return Err(invalid!("Can't read header of file"));
                }
            }
        })
    }
}

/// A field as it stands in the file.
#[derive(Default)]
struct Field {
    text: Vec<u8>,
    /// The first thing that is wrong with it.
    error: Option<Error>,
    ends_row: bool,
}

impl Csv {
    /// The next row; `None` at the end of the file. After an error the next row is still a row.
    fn row(&self, bytes: &mut Bytes, is_data: bool) -> Result<Option<Element>> {
        if peek(bytes)?.is_none() {
            return Ok(None);
        }
        let (mut row, mut failure) = (Vec::new(), None);
        let (mut selected, mut excluded) = (0, 0);
        for column in 0.. {
            let field = self.field(bytes)?;
            let is_excluded = self.excluded.get(excluded) == Some(&column);
            let is_selected = self.selected.get(selected) == Some(&column);
            let all = self.selected.is_empty() && self.excluded.is_empty();
            let is_in = all || is_selected || !self.excluded.is_empty() && !is_excluded;
            selected += usize::from(is_in);
            excluded += usize::from(is_excluded);
            let mut error = field.error;
            if error.is_none() && is_in && is_data {
                match self.value(row.len(), &field.text) {
                    Ok(value) => row.push(value),
                    Err(wrong) => error = Some(wrong),
                }
            }
            failure = failure.or(error);
            if field.ends_row {
                break;
            }
        }
        match failure {
            Some(error) if is_data => Err(error),
            _ => Ok(Some(row)),
        }
    }

    fn field(&self, bytes: &mut Bytes) -> Result<Field> {
        let mut field = Field::default();
        if self.has_quotes && peek(bytes)? == Some(b'"') {
            bytes.consume(1);
            return self.quoted(bytes, field);
        }
        loop {
            let Some(byte) = take(bytes)? else {
                field.ends_row = true;
                return Ok(field);
            };
            if self.ends(byte, bytes, &mut field)? {
                return Ok(field);
            }
            if self.has_quotes && byte == b'"' {
                let error = || invalid!("Unquoted fields cannot have quotes inside");
                field.error.get_or_insert_with(error);
            }
            field.text.push(byte);
        }
    }

    /// The rest of a field behind its first quote.
    fn quoted(&self, bytes: &mut Bytes, mut field: Field) -> Result<Field> {
        loop {
            let Some(byte) = take(bytes)? else {
                let message = "Reached end of file without closing quoted field in record";
                field.error = Some(invalid!("{message}"));
                field.ends_row = true;
                return Ok(field);
            };
            if byte != b'"' {
                field.text.push(byte);
                continue;
            }
            match take(bytes)? {
                None => {
                    field.ends_row = true;
                    return Ok(field);
                }
                Some(next) if self.ends(next, bytes, &mut field)? => return Ok(field),
                Some(b'"') => field.text.push(b'"'),
                Some(_) => {
                    let error =
                        || invalid!("Quote inside a string has to be escaped by another quote");
                    field.error.get_or_insert_with(error);
                }
            }
        }
    }

    /// True if `byte` ends the field; the end of the row may be of two bytes.
    fn ends(&self, byte: u8, bytes: &mut Bytes, field: &mut Field) -> Result<bool> {
        if byte == self.delimiter {
            return Ok(true);
        }
        if byte == b'\r' && peek(bytes)? == Some(b'\n') {
            bytes.consume(1);
        }
        field.ends_row = byte == b'\n' || byte == b'\r';
        Ok(field.ends_row)
    }

    /// Output `index` of the text.
    fn value(&self, index: usize, text: &[u8]) -> Result<Tensor> {
        let Some(&dtype) = self.dtypes.get(index) else {
            return Err(invalid!("Expect {} fields but have more in record", self.dtypes.len()));
        };
        if text.is_empty() || text == self.missing {
            let default = &self.defaults[index];
            require!(default.count() == 1, "Field {index} is required but missing in record!");
            return default.clone().with_shape(tfcore_tensor::Shape::scalar());
        }
        let shown = || String::from_utf8_lossy(text).into_owned();
        let wrong =
            |kind: &str| invalid!("Field {index} in record is not a valid {kind}: {}", shown());
        let number = std::str::from_utf8(text).unwrap_or("").trim_matches([' ', '\t', '\n', '\r']);
        Ok(match dtype {
            DType::STRING => Tensor::scalar(TString::from(text)),
            DType::INT32 => Tensor::scalar(number.parse::<i32>().map_err(|_| wrong("int32"))?),
            DType::INT64 => Tensor::scalar(number.parse::<i64>().map_err(|_| wrong("int64"))?),
            DType::FLOAT => Tensor::scalar(number.parse::<f32>().map_err(|_| wrong("float"))?),
            DType::DOUBLE => Tensor::scalar(number.parse::<f64>().map_err(|_| wrong("double"))?),
            other => {
                return Err(invalid!("csv: data type {other} not supported in field {index}"));
            }
        })
    }
}

/// The next byte without reading past it; `None` at the end.
fn peek(bytes: &mut Bytes) -> Result<Option<u8>> {
    Ok(bytes.fill_buf().map_err(stream_error)?.first().copied())
}

fn take(bytes: &mut Bytes) -> Result<Option<u8>> {
    let byte = peek(bytes)?;
    if byte.is_some() {
        bytes.consume(1);
    }
    Ok(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<std::result::Result<Vec<String>, String>> {
        let empty = || Tensor::from_slice(tfcore_tensor::Shape::vector(0), &[0i32; 0]).unwrap();
        let csv = Csv {
            names: Vec::new(),
            compression: Compression::None,
            has_header: false,
            delimiter: b',',
            has_quotes: true,
            missing: b"NA".to_vec(),
            selected: Vec::new(),
            excluded: Vec::new(),
            defaults: vec![empty(), Tensor::scalar(TString::from("none"))],
            dtypes: vec![DType::INT32, DType::STRING],
        };
        let mut bytes: Bytes = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut all = Vec::new();
        loop {
            match csv.row(&mut bytes, true) {
                Ok(None) => return all,
                Ok(Some(row)) => all.push(Ok(row
                    .iter()
                    .map(|value| match value.dtype() {
                        DType::INT32 => value.scalar_value::<i32>().unwrap().to_string(),
                        _ => {
                            let text = value.scalar_value::<TString>().unwrap();
                            String::from_utf8(text.as_bytes().to_vec()).unwrap()
                        }
                    })
                    .collect())),
                Err(error) => all.push(Err(error.message().to_string())),
            }
        }
    }

    #[test]
    fn rows_of_plain_and_quoted_fields() {
        let row = |first: &str, second: &str| Ok(vec![first.to_string(), second.to_string()]);
        assert_eq!(
            rows("1,a\r\n 2 ,\"b,\"\"c\"\"\n\"\n3,\n4,NA\r5,e"),
            [
                row("1", "a"),
                row("2", "b,\"c\"\n"),
                row("3", "none"),
                row("4", "none"),
                row("5", "e")
            ]
        );
        assert_eq!(rows(""), []);
    }

    #[test]
    fn wrong_rows_are_errors_and_the_next_row_is_read() {
        let all = rows("x,a\n,b\n1,c\"\n2,\"d\"e\",f\n3,\"g");
        let messages: Vec<&str> =
            all.iter().map(|row| row.as_ref().unwrap_err().as_str()).collect();
        assert_eq!(
            messages,
            [
                "Field 0 in record is not a valid int32: x",
                "Field 0 is required but missing in record!",
                "Unquoted fields cannot have quotes inside",
                "Quote inside a string has to be escaped by another quote",
                "Reached end of file without closing quoted field in record",
            ]
        );
        assert_eq!(
            rows("1,a,b")[0].as_ref().unwrap_err(),
            "Expect 2 fields but have more in record"
        );
    }
}
