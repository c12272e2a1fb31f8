//! A real segment file, on either medium.
//!
//! Forwards each operation to the file of its medium. Not here: the operations (`os/called.rs`,
//! `os/dax/file.rs`).

use std::io;

use bytes::Bytes;

use super::called::CalledFile;
use super::dax::MappedFile;
use crate::buf::AlignedBuf;
use crate::disk::{DiskFile, IoClass};

/// An open file; clones share it and its latch.
#[derive(Clone)]
pub struct SystemFile {
    medium: OnMedium,
}

#[derive(Clone)]
enum OnMedium {
    Called(CalledFile),
    Mapped(MappedFile),
}

impl From<CalledFile> for SystemFile {
    fn from(file: CalledFile) -> Self {
        Self {
            medium: OnMedium::Called(file),
        }
    }
}

impl From<MappedFile> for SystemFile {
    fn from(file: MappedFile) -> Self {
        Self {
            medium: OnMedium::Mapped(file),
        }
    }
}

impl SystemFile {
    /// Returns true when the file bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        match &self.medium {
            OnMedium::Called(file) => file.is_direct(),
            OnMedium::Mapped(file) => !file.is_emulated(),
        }
    }
}

impl DiskFile for SystemFile {
    fn of_class(&self, class: IoClass) -> Self {
        match &self.medium {
            OnMedium::Called(file) => Self::from(file.of_class(class)),
            OnMedium::Mapped(_) => self.clone(),
        }
    }

    async fn write_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        match &self.medium {
            OnMedium::Called(file) => file.write_at(position, parts).await,
            OnMedium::Mapped(file) => file.write_at(position, parts).await,
        }
    }

    async fn write_durably_at(&self, position: u64, parts: Vec<Bytes>) -> io::Result<()> {
        match &self.medium {
            OnMedium::Called(file) => file.write_durably_at(position, parts).await,
            OnMedium::Mapped(file) => {
                // Stores are durable; a changed length is not.
                file.write_at(position, parts).await?;
                file.sync().await
            }
        }
    }

    async fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        match &self.medium {
            OnMedium::Called(file) => file.read_at(position, len).await,
            OnMedium::Mapped(file) => file.read_at(position, len),
        }
    }

    async fn read_into(&self, position: u64, buf: AlignedBuf) -> io::Result<AlignedBuf> {
        match &self.medium {
            OnMedium::Called(file) => file.read_into(position, buf).await,
            OnMedium::Mapped(file) => file.read_into(position, buf),
        }
    }

    async fn sync(&self) -> io::Result<()> {
        match &self.medium {
            OnMedium::Called(file) => file.sync().await,
            OnMedium::Mapped(file) => file.sync().await,
        }
    }

    async fn allocate(&self, len: u64) -> io::Result<()> {
        match &self.medium {
            OnMedium::Called(file) => file.allocate(len).await,
            OnMedium::Mapped(file) => file.allocate(len).await,
        }
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        match &self.medium {
            OnMedium::Called(file) => file.set_len(len).await,
            OnMedium::Mapped(file) => file.set_len(len).await,
        }
    }

    async fn len(&self) -> io::Result<u64> {
        match &self.medium {
            OnMedium::Called(file) => file.len().await,
            OnMedium::Mapped(file) => file.len(),
        }
    }
}
