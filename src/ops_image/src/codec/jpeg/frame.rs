//! Segments and scans of a JPEG file.

use super::idct::{self, Method};
use super::source::{Source, Step, Stop, Table};

pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// The place of a coefficient in its block; damaged files count past the end.
fn place(k: usize) -> usize {
    ZIGZAG.get(k).map_or(63, |&at| at.into())
}

#[derive(Default)]
pub(super) struct Component {
    id: u8,
    pub(super) h: usize,
    pub(super) v: usize,
    table: usize,
    /// Size in blocks that hold pixels.
    width_blocks: usize,
    height_blocks: usize,
    /// Blocks in a row of coefficients, with those of whole interleaved units.
    stride_blocks: usize,
    /// Pixels of a block's row, after scaling.
    pub(super) size: usize,
    quant: Option<[u16; 64]>,
    coefficients: Vec<i16>,
    pub(super) plane: Vec<u8>,
    pub(super) stride: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

#[derive(Default)]
pub(super) struct Frame {
    pub(super) width: usize,
    pub(super) height: usize,
    is_progressive: bool,
    pub(super) components: Vec<Component>,
    pub(super) max_h: usize,
    pub(super) max_v: usize,
    pub(super) has_jfif: bool,
    /// The colour transform of an Adobe marker.
    pub(super) adobe: Option<u8>,
    quants: [Option<[u16; 64]>; 4],
    constants: [Option<Table>; 4],
    others: [Option<Table>; 4],
    interval: usize,
}

/// The header of a scan.
pub(super) struct Scan {
    members: Vec<(usize, usize, usize)>,
    start: usize,
    end: usize,
    high: u32,
    low: u32,
}

pub(super) enum Found {
    Scan(Scan),
    End,
}

fn ensure(condition: bool) -> Step<()> {
    if condition { Ok(()) } else { Err(Stop::Failed) }
}

impl Frame {
    pub(super) fn start(source: &mut Source<'_>) -> Step<()> {
        ensure(source.byte()? == 0xff && source.byte()? == 0xd8)?;
        source.sync();
        Ok(())
    }

    /// Reads segments up to the next scan or the end of the image.
    pub(super) fn segments(&mut self, source: &mut Source<'_>) -> Step<Found> {
        loop {
            if source.marker == 0 {
                source.next_marker()?;
            }
            let marker = std::mem::take(&mut source.marker);
            match marker {
                0xc0..=0xc2 => self.frame_header(source, marker == 0xc2)?,
                0xda => return self.scan_header(source).map(Found::Scan),
                0xd9 => return Ok(Found::End),
                0xc4 => self.huffman_tables(source)?,
                0xdb => self.quant_tables(source)?,
                0xdd => {
                    ensure(source.word()? == 4)?;
                    self.interval = source.word()?;
                    source.sync();
                }
                0xe0..=0xef => self.application(source, marker)?,
                0xfe | 0xdc | 0xcc => {
                    let len = source.word()?;
                    source.skip(len.saturating_sub(2))?;
                }
                0xd0..=0xd7 | 0x01 => {}
                _ => return Err(Stop::Failed),
            }
        }
    }

    fn application(&mut self, source: &mut Source<'_>, marker: u8) -> Step<()> {
        let len = source.word()?.saturating_sub(2);
        if !matches!(marker, 0xe0 | 0xee) {
            return source.skip(len);
        }
        let mut data = [0; 14];
        let seen = len.min(14);
        for byte in &mut data[..seen] {
            *byte = source.byte()?;
        }
        if marker == 0xe0 && len >= 14 && data.starts_with(b"JFIF\0") {
            self.has_jfif = true;
        }
        if marker == 0xee && len >= 12 && data.starts_with(b"Adobe") {
            self.adobe = Some(data[11]);
        }
        source.sync();
        if len > seen { source.skip(len - seen) } else { Ok(()) }
    }

    fn quant_tables(&mut self, source: &mut Source<'_>) -> Step<()> {
        let mut len = source.word()?.saturating_sub(2);
        while len > 0 {
            let head = source.byte()?;
            let is_wide = head >> 4 != 0;
            let need = if is_wide { 129 } else { 65 };
            let mut table = [0u16; 64];
            for k in 0..64 {
                let value = if is_wide { source.word()? } else { usize::from(source.byte()?) };
                table[place(k)] = value as u16;
            }
            *self.quants.get_mut(usize::from(head & 15)).ok_or(Stop::Failed)? = Some(table);
            len = len.checked_sub(need).ok_or(Stop::Failed)?;
        }
        source.sync();
        Ok(())
    }

    fn huffman_tables(&mut self, source: &mut Source<'_>) -> Step<()> {
        let mut len = source.word()?.saturating_sub(2);
        while len > 16 {
            let index = source.byte()?;
            let mut counts = [0u8; 16];
            for count in &mut counts {
                *count = source.byte()?;
            }
            len -= 17;
            let count: usize = counts.iter().map(|&count| usize::from(count)).sum();
            ensure(count <= 256 && count <= len && index & 0xef < 4)?;
            let mut symbols = Vec::with_capacity(count);
            for _ in 0..count {
                symbols.push(source.byte()?);
            }
            len -= count;
            // A table that is no code fails when a scan uses it.
            let table = Table::new(&counts, symbols);
            let tables = if index & 16 == 0 { &mut self.constants } else { &mut self.others };
            tables[usize::from(index & 3)] = table;
        }
        ensure(len == 0)?;
        source.sync();
        Ok(())
    }

    fn frame_header(&mut self, source: &mut Source<'_>, is_progressive: bool) -> Step<()> {
        ensure(self.components.is_empty())?;
        let len = source.word()?;
        let precision = source.byte()?;
        (self.height, self.width) = (source.word()?, source.word()?);
        let count = usize::from(source.byte()?);
        ensure(self.height > 0 && self.width > 0 && (1..=10).contains(&count))?;
        ensure(precision == 8 && self.height <= 65500 && self.width <= 65500)?;
        ensure(len == 8 + 3 * count)?;
        self.is_progressive = is_progressive;
        for _ in 0..count {
            let (id, factors, table) = (source.byte()?, source.byte()?, source.byte()?);
            let (h, v) = (usize::from(factors >> 4), usize::from(factors & 15));
            ensure((1..=4).contains(&h) && (1..=4).contains(&v))?;
            let component = Component { id, h, v, table: table.into(), ..Component::default() };
            self.components.push(component);
            self.max_h = self.max_h.max(h);
            self.max_v = self.max_v.max(v);
        }
        for component in &mut self.components {
            let blocks = |size: usize, own: usize, max: usize| (size * own).div_ceil(max * 8);
            component.width_blocks = blocks(self.width, component.h, self.max_h);
            component.height_blocks = blocks(self.height, component.v, self.max_v);
            component.stride_blocks = self.width.div_ceil(self.max_h * 8) * component.h;
        }
        source.sync();
        Ok(())
    }

    fn scan_header(&mut self, source: &mut Source<'_>) -> Step<Scan> {
        ensure(!self.components.is_empty())?;
        let len = source.word()?;
        let count = usize::from(source.byte()?);
        ensure((1..=4).contains(&count) && len == 6 + 2 * count)?;
        let mut members: Vec<(usize, usize, usize)> = Vec::with_capacity(count);
        for _ in 0..count {
            let (id, tables) = (source.byte()?, source.byte()?);
            let is_new = |&at: &usize| {
                self.components[at].id == id && members.iter().all(|&(other, ..)| other != at)
            };
            let at = (0..self.components.len()).find(is_new).ok_or(Stop::Failed)?;
            members.push((at, usize::from(tables >> 4), usize::from(tables & 15)));
        }
        let (start, end) = (source.byte()?.into(), source.byte()?.into());
        let bits = source.byte()?;
        source.sync();
        Ok(Scan { members, start, end, high: (bits >> 4).into(), low: (bits & 15).into() })
    }

    pub(super) fn has_several_scans(&self, first: &Scan) -> bool {
        self.is_progressive || first.members.len() < self.components.len()
    }

    pub(super) fn has_one_component(&self) -> bool {
        self.components.len() == 1
    }

    /// Rows of interleaved units.
    pub(super) fn unit_rows(&self) -> usize {
        self.height.div_ceil(self.max_v * 8)
    }

    /// Allocates coefficients for so many rows of units, and planes for all.
    pub(super) fn allocate(&mut self, coefficient_rows: usize, min_size: usize) -> Option<()> {
        let (rows, max_h, max_v) = (self.unit_rows(), self.max_h, self.max_v);
        let sizes = |size: usize, own: usize, max: usize| (size * own).div_ceil(max * 8);
        let (width, height) = (self.width, self.height);
        for component in &mut self.components {
            let blocks = component.stride_blocks * component.v;
            let count = blocks.checked_mul(coefficient_rows)?.checked_mul(64)?;
            component.coefficients = tfcore_base::try_filled(0i16, count).ok()?;
            let mut size = min_size;
            while size < 8
                && (max_h * min_size).is_multiple_of(component.h * size * 2)
                && (max_v * min_size).is_multiple_of(component.v * size * 2)
            {
                size *= 2;
            }
            component.size = size;
            component.stride = component.stride_blocks * size;
            let count = blocks.checked_mul(rows)?.checked_mul(size * size)?;
            component.plane = tfcore_base::try_filled(0u8, count).ok()?;
            component.width = sizes(width, component.h * size, max_h);
            component.height = sizes(height, component.v * size, max_v);
        }
        Some(())
    }

    /// Computes the pixels of rows of units; `first_row` is the one whose coefficients stand first.
    pub(super) fn transform(&mut self, rows: std::ops::Range<usize>, method: Method) {
        let first_row = rows.start;
        for component in &mut self.components {
            let (stride, size) = (component.stride_blocks, component.size);
            let quant = component.quant.unwrap_or([0; 64]);
            let fast = idct::fast_table(&quant);
            for row in rows.start * component.v..rows.end * component.v {
                let from = (row - first_row * component.v) * stride;
                for col in 0..stride {
                    let block = &component.coefficients[(from + col) * 64..][..64];
                    let pixels = idct::transform(block, &quant, &fast, size, method);
                    for (y, line) in pixels[..size * size].chunks_exact(size).enumerate() {
                        let at = (row * size + y) * component.stride + col * size;
                        component.plane[at..at + size].copy_from_slice(line);
                    }
                }
            }
        }
    }

    pub(super) fn ids(&self) -> Vec<u8> {
        self.components.iter().map(|component| component.id).collect()
    }

    pub(super) fn blocks(&self) -> usize {
        self.components.iter().map(|c| c.stride_blocks * self.unit_rows() * c.v).sum()
    }

    /// Blocks that a scan visits.
    pub(super) fn work(&self, scan: &Scan) -> usize {
        scan.members
            .iter()
            .map(|&(at, ..)| &self.components[at])
            .map(|c| c.stride_blocks * self.unit_rows() * c.v)
            .sum()
    }

    /// Decodes a scan. With `each_row`, coefficients are kept for one row of units only, and `each_row` is called with the
    /// frame and the row after each.
    pub(super) fn scan(
        &mut self,
        source: &mut Source<'_>,
        scan: &Scan,
        mut each_row: Option<&mut dyn FnMut(&mut Self, usize)>,
    ) -> Step<()> {
        let is_progressive = self.is_progressive;
        if is_progressive {
            let is_valid = match scan.start {
                0 => scan.end == 0,
                start => start <= scan.end && scan.end < 64 && scan.members.len() == 1,
            };
            let is_refinement_valid = scan.high == 0 || scan.high == scan.low + 1;
            ensure(is_valid && is_refinement_valid && scan.low <= 13)?;
        }
        let is_single = scan.members.len() == 1;
        let mut blocks_in_unit = 0;
        for &(at, ..) in &scan.members {
            let component = &mut self.components[at];
            if component.quant.is_none() {
                let table = self.quants.get(component.table).copied().flatten();
                component.quant = Some(table.ok_or(Stop::Failed)?);
            }
            blocks_in_unit += component.h * component.v;
        }
        ensure(is_single || blocks_in_unit <= 10)?;
        let mut constants: [Option<Table>; 4] = Default::default();
        let mut others: [Option<Table>; 4] = Default::default();
        std::mem::swap(&mut constants, &mut self.constants);
        std::mem::swap(&mut others, &mut self.others);
        let mut state = State { last: [0; 4], run: 0 };
        for &(_, dc, ac) in &scan.members {
            let needs_dc = scan.start == 0 && (!is_progressive || scan.high == 0);
            let needs_ac = !is_progressive || scan.start > 0;
            let dc = constants.get(dc).and_then(Option::as_ref);
            ensure(!needs_dc || dc.is_some_and(Table::is_for_constants))?;
            ensure(!needs_ac || others.get(ac).is_some_and(Option::is_some))?;
        }
        source.drop_bits();
        source.is_exhausted = false;
        let (mut to_go, mut next_restart) = (self.interval, 0);
        for row in 0..self.unit_rows() {
            let base_row = if each_row.is_some() { row } else { 0 };
            let (inner_rows, units) = if is_single {
                let component = &self.components[scan.members[0].0];
                let rest =
                    component.height_blocks - (row * component.v).min(component.height_blocks);
                (rest.min(component.v), component.width_blocks)
            } else {
                (1, self.width.div_ceil(self.max_h * 8))
            };
            for inner in 0..inner_rows {
                for unit in 0..units {
                    if self.interval > 0 && to_go == 0 {
                        restart(source, &mut next_restart)?;
                        state = State { last: [0; 4], run: 0 };
                        to_go = self.interval;
                    }
                    if !source.is_exhausted {
                        for (member, &(at, dc, ac)) in scan.members.iter().enumerate() {
                            let component = &mut self.components[at];
                            let (h, v) =
                                if is_single { (1, 1) } else { (component.h, component.v) };
                            for block in 0..h * v {
                                let y = (row - base_row) * component.v + inner + block / h;
                                let x = unit * h + block % h;
                                let at = (y * component.stride_blocks + x) * 64;
                                let block = component
                                    .coefficients
                                    .get_mut(at..at + 64)
                                    .ok_or(Stop::Failed)?;
                                let dc = constants.get(dc).and_then(Option::as_ref);
                                let ac = others.get(ac).and_then(Option::as_ref);
                                let last = &mut state.last[member];
                                if !is_progressive {
                                    sequential(source, block, last, dc, ac)?;
                                } else if scan.start == 0 {
                                    progressive_constant(source, block, last, dc, scan)?;
                                } else if scan.high == 0 {
                                    first_pass(source, block, &mut state.run, ac, scan)?;
                                } else {
                                    refine(source, block, &mut state.run, ac, scan)?;
                                }
                            }
                        }
                        source.sync();
                    }
                    to_go = to_go.wrapping_sub(1);
                }
            }
            if let Some(done) = &mut each_row {
                done(self, row);
                for component in &mut self.components {
                    component.coefficients.fill(0);
                }
            }
        }
        (self.constants, self.others) = (constants, others);
        source.drop_bits();
        Ok(())
    }
}

struct State {
    last: [i32; 4],
    /// Blocks of the run of ends of blocks that are still to come.
    run: u32,
}

/// Goes on after a restart marker; where another one stands, libjpeg's guess of what was lost.
fn restart(source: &mut Source<'_>, next: &mut u8) -> Step<()> {
    source.drop_bits();
    if source.marker == 0 {
        source.next_marker()?;
    }
    if source.marker == 0xd0 + *next {
        source.marker = 0;
        source.sync();
    } else {
        loop {
            let marker = source.marker;
            let ahead = marker.wrapping_sub(0xd0 + *next) & 7;
            let is_restart = matches!(marker, 0xd0..=0xd7);
            if marker < 0xc0 || is_restart && matches!(ahead, 6 | 7) {
                source.next_marker()?;
            } else if !is_restart || matches!(ahead, 1 | 2) {
                break;
            } else {
                source.marker = 0;
                break;
            }
        }
    }
    *next = (*next + 1) & 7;
    if source.marker == 0 {
        source.is_exhausted = false;
    }
    Ok(())
}

fn sequential(
    source: &mut Source<'_>,
    block: &mut [i16],
    last: &mut i32,
    dc: Option<&Table>,
    ac: Option<&Table>,
) -> Step<()> {
    let (Some(dc), Some(ac)) = (dc, ac) else { return Err(Stop::Failed) };
    let bits = source.symbol(dc)?;
    *last = last.wrapping_add(source.signed(bits.into())?);
    block[0] = *last as i16;
    let mut k = 1;
    while k < 64 {
        let symbol = source.symbol(ac)?;
        let (zeros, bits) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if bits > 0 {
            k += zeros;
            block[place(k)] = source.signed(bits)? as i16;
        } else if zeros == 15 {
            k += 15;
        } else {
            break;
        }
        k += 1;
    }
    Ok(())
}

fn progressive_constant(
    source: &mut Source<'_>,
    block: &mut [i16],
    last: &mut i32,
    dc: Option<&Table>,
    scan: &Scan,
) -> Step<()> {
    if scan.high > 0 {
        if source.bits(1)? > 0 {
            block[0] |= 1 << scan.low;
        }
        return Ok(());
    }
    let bits = source.symbol(dc.ok_or(Stop::Failed)?)?;
    *last = last.wrapping_add(source.signed(bits.into())?);
    block[0] = (*last << scan.low) as i16;
    Ok(())
}

fn first_pass(
    source: &mut Source<'_>,
    block: &mut [i16],
    run: &mut u32,
    ac: Option<&Table>,
    scan: &Scan,
) -> Step<()> {
    if *run > 0 {
        *run -= 1;
        return Ok(());
    }
    let ac = ac.ok_or(Stop::Failed)?;
    let mut k = scan.start;
    while k <= scan.end {
        let symbol = source.symbol(ac)?;
        let (zeros, bits) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        if bits > 0 {
            k += zeros as usize;
            block[place(k)] = (source.signed(bits)? << scan.low) as i16;
        } else if zeros == 15 {
            k += 15;
        } else {
            *run = (1 << zeros) - 1 + source.bits(zeros)? as u32;
            break;
        }
        k += 1;
    }
    Ok(())
}

fn refine(
    source: &mut Source<'_>,
    block: &mut [i16],
    run: &mut u32,
    ac: Option<&Table>,
    scan: &Scan,
) -> Step<()> {
    let ac = ac.ok_or(Stop::Failed)?;
    let one = 1i16 << scan.low;
    let correct = |source: &mut Source<'_>, value: &mut i16| -> Step<()> {
        if source.bits(1)? > 0 && *value & one == 0 {
            *value = if *value >= 0 { value.wrapping_add(one) } else { value.wrapping_sub(one) };
        }
        Ok(())
    };
    let mut k = scan.start;
    if *run == 0 {
        while k <= scan.end {
            let symbol = source.symbol(ac)?;
            let (mut zeros, bits) = (u32::from(symbol >> 4), symbol & 15);
            let mut fresh = 0;
            if bits > 0 {
                fresh = if source.bits(1)? > 0 { one } else { -one };
            } else if zeros != 15 {
                *run = (1 << zeros) + source.bits(zeros)? as u32;
                break;
            }
            while k <= scan.end {
                let value = &mut block[place(k)];
                if *value != 0 {
                    correct(source, value)?;
                } else if zeros == 0 {
                    break;
                } else {
                    zeros -= 1;
                }
                k += 1;
            }
            if fresh != 0 {
                block[place(k)] = fresh;
            }
            k += 1;
        }
    }
    if *run > 0 {
        while k <= scan.end {
            let value = &mut block[place(k)];
            if *value != 0 {
                correct(source, value)?;
            }
            k += 1;
        }
        *run -= 1;
    }
    Ok(())
}
