/* The file system that a path lies on: what it is, and whether it has locks. Nothing is written to it. */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

typedef struct kind {
    unsigned long magic;
    const char *name;
    bool network;
} kind;

static const kind KINDS[] = {
    {0xEF53, "ext4", false},         {0x58465342, "XFS", false}, {0x9123683E, "btrfs", false}, {0x01021994, "tmpfs", false},
    {0x794C7630, "overlay", false},  {0x2FC12FC1, "ZFS", false}, {0xF2F52010, "F2FS", false},  {0xCA451A4E, "bcachefs", false},
    {0x73717368, "squashfs", false}, {0x6969, "NFS", true},      {0x0BD00BD0, "Lustre", true}, {0x47504653, "GPFS", true},
    {0x19830326, "BeeGFS", true},    {0x00C36400, "Ceph", true}, {0xFF534D42, "CIFS", true},   {0xFE534D42, "SMB", true},
    {0x65735546, "FUSE", true},      {0x01021997, "9P", true},   {0xAAD7AAEA, "PanFS", true},  {0x6B414653, "AFS", true},
    {0x20030528, "OrangeFS", true},
};

void doctor_path(doctor_report *report, const char *path)
{
    struct statfs fs;
    struct stat st;
    if (statfs(path, &fs) != 0 || stat(path, &st) != 0) {
        doctor_finding *f = doctor_add(report, "path", DOCTOR_NOTE, "%s: %s", path, strerror(errno));
        cli_text_add(&f->cure, "name a file or a folder that is there");
        return;
    }
    const kind *found = NULL;
    for (size_t i = 0; !found && i < sizeof KINDS / sizeof *KINDS; i++)
        if (KINDS[i].magic == ((unsigned long)fs.f_type & 0xFFFFFFFF))
            found = &KINDS[i];
    const uint64_t total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize, unused = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    doctor_finding *f = doctor_add(report, "path", DOCTOR_OK, "%s: ", path);
    if (found)
        cli_text_add(&f->what, found->name);
    else
        cli_text_addf(&f->what, "a file system of type %#lx", (unsigned long)fs.f_type);
    cli_text_addf(&f->what, ", %s free of %s", cli_size(unused), cli_size(total));
    if (found && found->network) {
        f->level = DOCTOR_SLOW;
        cli_text_add(&f->cure, "the first pass waits for the network: give memory= room for the data, or copy the files to a local disk");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        f->level = DOCTOR_NOTE;
        cli_text_addf(&f->what, "; it cannot be read (%s)", strerror(errno));
        return;
    }
    if (flock(fd, LOCK_SH | LOCK_NB) == 0)
        cli_text_add(&f->what, ", locks work");
    else if (errno == EWOULDBLOCK)
        cli_text_add(&f->what, ", locks work (somebody is writing it)");
    else
        cli_text_addf(&f->what, ", no locks (%s): an HDF5 file that is being written is not noticed", strerror(errno));
    (void)close(fd); /* it was only read; its lock goes with it */
}
