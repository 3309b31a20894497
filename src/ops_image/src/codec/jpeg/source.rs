//! Bytes and bits of a JPEG file, with libjpeg's rules for data that ends early.

/// Reasons to stop reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stop {
    /// The data ended inside a unit that must be read as a whole.
    Suspended,
    Failed,
}

pub(super) type Step<T> = std::result::Result<T, Stop>;

const END_OF_IMAGE: &[u8] = &[0xff, 0xd9];

/// Bits that a refill leaves in the buffer at least.
const FILLED: u32 = 57;

pub(super) struct Source<'a> {
    data: &'a [u8],
    at: usize,
    /// Position of the last unit that was read as a whole.
    synced: usize,
    /// Bytes read again since then.
    reread: usize,
    recovers: bool,
    buffer: u64,
    left: u32,
    /// The marker that ended the last run of bits, 0 without one.
    pub(super) marker: u8,
    /// True after bits were asked for past the end of a run.
    pub(super) is_exhausted: bool,
}

impl<'a> Source<'a> {
    pub(super) fn new(data: &'a [u8], recovers: bool) -> Self {
        Self {
            data,
            at: 0,
            synced: 0,
            reread: 0,
            recovers,
            buffer: 0,
            left: 0,
            marker: 0,
            is_exhausted: false,
        }
    }

    /// Declares all that was read as final.
    pub(super) fn sync(&mut self) {
        self.synced = self.at;
        self.reread = 0;
    }

    /// The reference reads the unit's bytes again where it recovers data that ends inside of a unit, and finds an end of
    /// image where it ends between two.
    fn refill(&mut self) -> Step<()> {
        let tail = self.data.len() - self.synced;
        if tail > 0 {
            if !self.recovers {
                return Err(Stop::Suspended);
            }
            self.reread += tail;
            if self.reread > (tail * 4).max(1 << 16) {
                return Err(Stop::Failed);
            }
            self.at = self.synced;
            return Ok(());
        }
        if !self.recovers {
            return Err(Stop::Failed);
        }
        (self.data, self.at, self.synced) = (END_OF_IMAGE, 0, 0);
        Ok(())
    }

    pub(super) fn byte(&mut self) -> Step<u8> {
        if self.at >= self.data.len() {
            self.refill()?;
        }
        let byte = *self.data.get(self.at).ok_or(Stop::Failed)?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn word(&mut self) -> Step<usize> {
        Ok(usize::from(self.byte()?) << 8 | usize::from(self.byte()?))
    }

    pub(super) fn skip(&mut self, count: usize) -> Step<()> {
        self.sync();
        if count > self.data.len() - self.at {
            self.at = self.data.len();
            self.sync();
            return self.refill();
        }
        self.at += count;
        self.sync();
        Ok(())
    }

    /// Sets `marker` to the next one, over any bytes before it.
    pub(super) fn next_marker(&mut self) -> Step<()> {
        loop {
            while self.byte()? != 0xff {
                self.sync();
            }
            let kind = loop {
                match self.byte()? {
                    0xff => {}
                    kind => break kind,
                }
            };
            if kind != 0 {
                self.marker = kind;
                self.sync();
                return Ok(());
            }
            self.sync();
        }
    }

    pub(super) fn drop_bits(&mut self) {
        (self.buffer, self.left) = (0, 0);
    }

    /// Fills the buffer; past the end of a run with zeros, if fewer than `wanted` bits are left.
    fn fill(&mut self, wanted: u32) -> Step<()> {
        while self.marker == 0 {
            if self.left >= FILLED {
                return Ok(());
            }
            let mut byte = self.byte()?;
            if byte == 0xff {
                while byte == 0xff {
                    byte = self.byte()?;
                }
                if byte != 0 {
                    self.marker = byte;
                    break;
                }
                byte = 0xff;
            }
            self.buffer = self.buffer << 8 | u64::from(byte);
            self.left += 8;
        }
        if wanted > self.left {
            self.is_exhausted = true;
            self.buffer <<= FILLED - self.left;
            self.left = FILLED;
        }
        Ok(())
    }

    /// At most 16 bits.
    pub(super) fn bits(&mut self, count: u32) -> Step<i32> {
        if self.left < count {
            self.fill(count)?;
        }
        self.left -= count;
        Ok((self.buffer >> self.left) as i32 & ((1 << count) - 1))
    }

    /// `count` bits as a signed value without the values that fewer bits can hold.
    pub(super) fn signed(&mut self, count: u32) -> Step<i32> {
        if count == 0 {
            return Ok(0);
        }
        let value = self.bits(count)?;
        Ok(if value < 1 << (count - 1) { value - (1 << count) + 1 } else { value })
    }

    pub(super) fn symbol(&mut self, table: &Table) -> Step<u8> {
        let mut len = 1;
        if self.left < 8 {
            self.fill(0)?;
        }
        if self.left >= 8 {
            let (found, symbol) = table.short[(self.buffer >> (self.left - 8)) as usize & 0xff];
            if found > 0 {
                self.left -= u32::from(found);
                return Ok(symbol);
            }
            len = 9;
        }
        let mut code = self.bits(len as u32)?;
        while len <= 16 && code > table.last[len] {
            code = code << 1 | self.bits(1)?;
            len += 1;
        }
        if len > 16 {
            return Ok(0);
        }
        let at = (code + table.offset[len]) as usize & 0xff;
        Ok(table.symbols.get(at).copied().unwrap_or(0))
    }
}

/// A Huffman code.
pub(super) struct Table {
    symbols: Vec<u8>,
    /// Length and symbol of codes of up to 8 bits, by the next 8 bits.
    short: [(u8, u8); 256],
    /// The last code of each length, -1 without one.
    last: [i32; 17],
    /// What to add to a code of a length for the place of its symbol.
    offset: [i32; 17],
}

impl Table {
    /// `None` for numbers of codes that no code has.
    pub(super) fn new(counts: &[u8; 16], symbols: Vec<u8>) -> Option<Self> {
        let mut table = Self { symbols, short: [(0, 0); 256], last: [-1; 17], offset: [0; 17] };
        let (mut code, mut at) = (0i32, 0usize);
        for len in 1..=16 {
            let count = i32::from(counts[len - 1]);
            if count > 0 {
                table.offset[len] = at as i32 - code;
                for _ in 0..count {
                    if len <= 8 {
                        let symbol = *table.symbols.get(at)?;
                        let first = (code as usize) << (8 - len);
                        let range = first..first + (1 << (8 - len));
                        table.short.get_mut(range)?.fill((len as u8, symbol));
                    }
                    (code, at) = (code + 1, at + 1);
                }
                if code > 1 << len {
                    return None;
                }
                table.last[len] = code - 1;
            }
            code <<= 1;
        }
        Some(table)
    }

    /// True if all symbols are numbers of bits of a constant coefficient.
    pub(super) fn is_for_constants(&self) -> bool {
        self.symbols.iter().all(|&symbol| symbol <= 15)
    }
}
