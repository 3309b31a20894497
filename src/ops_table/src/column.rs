//! `Column`: the rows of values of a table, side by side.

use tfcore_base::{DType, Result, internal};
use tfcore_tensor::{Elems, ElemsMut, ResourceHandle, TString, Variant};

use crate::keys::MISSING;

/// Rows of elements of one dtype. Each row has as many elements as a value of the table.
pub(crate) trait Column: Send + Sync {
    /// Puts row `index` of `source` at `rows[index]`, for all of them in order; there is room for each.
    fn store(&mut self, rows: &[u32], source: Elems<'_>);

    /// Makes room for `rows` rows, new ones of which are zeros or empty.
    fn resize(&mut self, rows: usize);

    /// Moves row `from` to row `to` for each pair, in a column of `rows` rows of which the others are zeros or empty.
    fn rearrange(&mut self, rows: usize, moves: &[(u32, u32)]);

    /// Writes the rows, with a row of `defaults` in place of each that is missing: its first row, or the one of the same number.
    fn gather(&self, rows: &[u32], defaults: Defaults<'_>, out: ElemsMut<'_>);

    /// True if row `row` is row `index` of `source`.
    fn is_same(&self, row: u32, source: Elems<'_>, index: usize) -> bool;
}

/// What stands for the values of missing keys.
#[derive(Clone, Copy)]
pub(crate) struct Defaults<'a> {
    pub(crate) values: Elems<'a>,
    /// True if each key has a default of its own.
    pub(crate) of_each: bool,
}

impl<'a> Defaults<'a> {
    /// The defaults of the keys from `start` on, of `width` elements each.
    pub(crate) fn from(self, start: usize, width: usize) -> Defaults<'a> {
        let start = if self.of_each { start * width } else { 0 };
        Defaults { values: self.values.slice(start..self.values.len()), ..self }
    }
}

/// An empty column for rows of `width` elements.
///
/// # Errors
/// `Internal` for a dtype that no table has.
pub(crate) fn column(dtype: DType, width: usize) -> Result<Box<dyn Column>> {
    Ok(match dtype {
        DType::STRING => rows::<TString>(width),
        DType::VARIANT => rows::<Variant>(width),
        DType::RESOURCE => rows::<ResourceHandle>(width),
        dtype if dtype.is_plain() => match dtype.size() {
            1 => rows::<u8>(width),
            2 => rows::<u16>(width),
            4 => rows::<u32>(width),
            8 => rows::<u64>(width),
            _ => rows::<[u64; 2]>(width),
        },
        dtype => return Err(internal!("Tables have no values of type {dtype}")),
    })
}

fn rows<C: Cell>(width: usize) -> Box<dyn Column> {
    Box::new(Rows::<C> { width, cells: Vec::new() })
}

/// An element as it is stored: plain ones by their width.
trait Cell: Clone + Default + PartialEq + Send + Sync + 'static {
    fn of(elems: Elems<'_>) -> &[Self];
    fn of_mut(elems: ElemsMut<'_>) -> &mut [Self];
}

macro_rules! cells {
    ($($view:ident: $($type:ty)+;)*) => {$($(
        impl Cell for $type {
            fn of(elems: Elems<'_>) -> &[Self] {
                elems.$view()
            }

            fn of_mut(elems: ElemsMut<'_>) -> &mut [Self] {
                elems.$view()
            }
        }
    )+)*};
}

cells! {
    lanes: u8 u16 u32 u64 [u64; 2];
    typed: TString Variant ResourceHandle;
}

struct Rows<C> {
    width: usize,
    cells: Vec<C>,
}

impl<C> Rows<C> {
    fn range(&self, row: usize) -> std::ops::Range<usize> {
        row * self.width..(row + 1) * self.width
    }
}

impl<C: Cell> Column for Rows<C> {
    fn store(&mut self, rows: &[u32], source: Elems<'_>) {
        let source = C::of(source);
        for (index, &row) in rows.iter().enumerate() {
            let (from, to) = (self.range(index), self.range(row as usize));
            self.cells[to].clone_from_slice(&source[from]);
        }
    }

    fn resize(&mut self, rows: usize) {
        self.cells.resize(rows * self.width, C::default());
    }

    fn rearrange(&mut self, rows: usize, moves: &[(u32, u32)]) {
        let mut cells = vec![C::default(); rows * self.width];
        for &(from, to) in moves {
            let (from, to) = (self.range(from as usize), self.range(to as usize));
            for (to, from) in cells[to].iter_mut().zip(&mut self.cells[from]) {
                *to = std::mem::take(from);
            }
        }
        self.cells = cells;
    }

    fn gather(&self, rows: &[u32], defaults: Defaults<'_>, out: ElemsMut<'_>) {
        let out = C::of_mut(out);
        let values = C::of(defaults.values);
        if self.width == 1 {
            for (index, (&row, out)) in rows.iter().zip(out).enumerate() {
                let value = match row {
                    MISSING => &values[if defaults.of_each { index } else { 0 }],
                    row => &self.cells[row as usize],
                };
                out.clone_from(value);
            }
            return;
        }
        for (index, &row) in rows.iter().enumerate() {
            let value = match row {
                MISSING => &values[self.range(if defaults.of_each { index } else { 0 })],
                row => &self.cells[self.range(row as usize)],
            };
            out[self.range(index)].clone_from_slice(value);
        }
    }

    fn is_same(&self, row: u32, source: Elems<'_>, index: usize) -> bool {
        self.cells[self.range(row as usize)] == C::of(source)[self.range(index)]
    }
}
