//! Sequential reading through a buffer.

use tfcore_base::{Result, out_of_range};

use crate::RandomAccessFile;

/// Reads a file from a position on, many bytes at a time.
pub struct BufferedReader<F> {
    file: F,
    buffer: Vec<u8>,
    /// The part of the buffer that has been read from the file and not been taken yet.
    start: usize,
    end: usize,
    /// The position in the file behind the buffer.
    offset: u64,
}

impl<F: AsRef<dyn RandomAccessFile>> BufferedReader<F> {
    /// A reader at the start of `file` with a buffer of `capacity` bytes, at least one.
    pub fn new(file: F, capacity: usize) -> BufferedReader<F> {
        BufferedReader { file, buffer: vec![0; capacity.max(1)], start: 0, end: 0, offset: 0 }
    }

    /// The position in the file of the next byte.
    pub fn position(&self) -> u64 {
        self.offset - (self.end - self.start) as u64
    }

    /// Goes to a position, which may be behind the end of the file.
    pub fn seek(&mut self, position: u64) {
        let begin = self.offset - self.end as u64;
        if (begin..=self.offset).contains(&position) {
            self.start = (position - begin) as usize;
        } else {
            (self.start, self.end, self.offset) = (0, 0, position);
        }
    }

    /// The bytes that are there without another read of the file; reads if there are none. Empty at the end of the
    /// file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn fill(&mut self) -> Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.end = self.file.as_ref().read_at(self.offset, &mut self.buffer)?;
            self.offset += self.end as u64;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Takes the first `count` of the bytes that [`BufferedReader::fill`] has returned.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Fills `out` as far as the file goes. Returns the number of bytes read.
    ///
    /// # Errors
    /// Those of the file.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() {
            let rest = &mut out[done..];
            if self.start == self.end && rest.len() >= self.buffer.len() {
                let count = self.file.as_ref().read_at(self.offset, rest)?;
                self.offset += count as u64;
                (self.start, self.end) = (0, 0);
                return Ok(done + count);
            }
            let available = self.fill()?;
            if available.is_empty() {
                break;
            }
            let count = available.len().min(rest.len());
            rest[..count].copy_from_slice(&available[..count]);
            self.consume(count);
            done += count;
        }
        Ok(done)
    }

    /// Fills `out`.
    ///
    /// # Errors
    /// `OutOfRange` if the file ends before; those of the file.
    pub fn read_exact(&mut self, out: &mut [u8]) -> Result<()> {
        if self.read(out)? < out.len() {
            return Err(out_of_range!("Read less bytes than requested"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(Vec<u8>);

    impl RandomAccessFile for Counting {
        fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
            let rest = self.0.get(offset as usize..).unwrap_or_default();
            let count = rest.len().min(out.len());
            out[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }
    }

    #[test]
    fn any_mix_of_reads_and_seeks_gives_the_bytes_of_the_file() {
        let bytes: Vec<u8> = (0..200).collect();
        let file: Box<dyn RandomAccessFile> = Box::new(Counting(bytes.clone()));
        let mut reader = BufferedReader::new(file, 16);
        for (seek, count) in [(0, 5), (5, 40), (30, 3), (44, 16), (2, 1), (190, 20), (300, 4)] {
            reader.seek(seek);
            let mut out = vec![0; count];
            let read = reader.read(&mut out).unwrap();
            let start = (seek as usize).min(bytes.len());
            let end = (seek as usize + count).min(bytes.len());
            assert_eq!(&out[..read], &bytes[start..end.max(start)], "{seek} {count}");
            assert_eq!(reader.position(), seek + read as u64);
        }
        reader.seek(198);
        assert!(reader.read_exact(&mut [0; 3]).is_err());
        reader.seek(7);
        assert_eq!(reader.fill().unwrap()[0], 7);
        reader.consume(1);
        assert_eq!(reader.fill().unwrap()[0], 8);
    }
}
